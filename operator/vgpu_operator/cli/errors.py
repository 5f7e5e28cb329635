"""What went wrong, as one line and an exit code: 1 failed, 2 wrong usage,
130 interrupted, 143 ended by SIGTERM."""

from vgpu_operator.cli import render

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
TERMINATED = 143


def sentence(fault: Exception) -> str:
    """Return one line that says what failed and what to do next."""
    words = render.shown(" ".join(str(fault).split())) or type(fault).__name__
    step = _next_step(fault)
    return f"{words}; {step}" if step else words


def is_expected(fault: Exception) -> bool:
    """Whether the fault's own text is meant for the user."""
    from vgpu_operator.cli.cluster import errors as cluster_errors
    from vgpu_operator.model import errors as model_errors

    return isinstance(fault, (model_errors.VgpuError, cluster_errors.ClusterError, OSError))


def _next_step(fault: Exception) -> str:
    """Return what to do about an answer (or none) of the API server; empty when it is plain."""
    from vgpu_operator.kube import errors as kube_errors

    steps: dict[type[Exception], str] = {
        kube_errors.Unreachable: "check that the API server runs, and --kubeconfig and --context",
        kube_errors.Unauthorized: "log in to the cluster again",
        kube_errors.Denied: "ask for rights to do this (reading needs get, list and watch)",
        kube_errors.TooMany: "try again in a moment",
        kube_errors.ServerFault: "try again, and look at the API server's log",
    }
    return steps.get(type(fault), "")
