"""XIDs: the numbers by which NVIDIA's driver reports faults."""

from typing import Final

APPLICATION_ERRORS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Faults that a program brings about; the card goes on working.

13 graphics engine exception, 31 memory page fault, 43 GPU stopped processing,
45 preemptive cleanup, 68 video processor exception, 109 context switch timeout.
Source: the list that NVIDIA's own device plugin leaves out of its health checks
(NVIDIA/k8s-device-plugin, ``internal/rm/health.go``, "Application errors: the GPU
should still be healthy"), which refers to NVIDIA's table of XIDs
(https://docs.nvidia.com/deploy/xid-errors/).
"""
