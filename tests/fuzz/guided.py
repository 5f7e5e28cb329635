"""Fuzz one reader, guided by the lines of code that each input reaches: ``make fuzz-guided``.

Atheris is needed by no test, and installed by that command only: hypothesis
changes inputs by their structure, Atheris by what they reach, many times as
fast. What it finds is kept like everything else.
"""

import sys


def main() -> None:
    """Fuzz the target that the first argument names; the others are libFuzzer's."""
    import atheris

    with atheris.instrument_imports(include=["vgpu_operator"]):
        from fuzz import judge, kept, targets

    target = targets.BY_NAME[sys.argv[1]]

    def one(data: bytes) -> None:
        try:
            judge.judge(target, data)
        except Exception:
            print(f"kept as {kept.keep(target.name, data)}", file=sys.stderr)
            raise

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
