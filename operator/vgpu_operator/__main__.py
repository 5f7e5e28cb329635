"""``python -m vgpu_operator``."""

from vgpu_operator.cli.main import main

if __name__ == "__main__":
    main()
