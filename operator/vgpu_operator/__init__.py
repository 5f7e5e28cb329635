"""vgpu-operator: the control plane half of the HAMi annotation protocol."""

__version__ = "0.1.0"
