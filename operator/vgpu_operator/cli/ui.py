"""``vgpu ui``: forward a port to the leader's state page and open it."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vgpu_operator.cli import options
from vgpu_operator.model import errors

if TYPE_CHECKING:
    from vgpu_operator.kube import client as kube_client

SELECTOR: Final = "app.kubernetes.io/name=vgpu-operator,app.kubernetes.io/component=scheduler"
"""Labels that the chart gives the operator's pods."""

USUAL_BIND: Final = "127.0.0.1:9396"
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod of the operator.

    Attributes:
        bind: where its state page listens; empty = switched off.
        lease: namespace and name of the Lease that it follows; None = it always leads.
    """

    namespace: str
    pod: str
    ready: bool
    bind: str
    lease: tuple[str, str] | None

    @property
    def port(self) -> str:
        """Port of the state page in the pod."""
        return self.bind.rpartition(":")[2]

    @property
    def scheme(self) -> str:
        """How it is spoken to: beyond loopback it shows a certificate."""
        from vgpu_operator.kube import listen

        address = listen.parse_address(self.bind, option="--state-bind")
        return "http" if address.is_loopback else "https"


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("ui")(ui)


def ui(
    operator: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of a state page; nothing is forwarded then."),
    ] = None,
    namespace: options.Namespace = None,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="The operator's pods.")
    ] = SELECTOR,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 = a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it, or only print where it is.")
    ] = True,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show the cluster as a page: cards, who holds them, who waits and why.

    Forwards a port of this machine to the replica that leads, until Ctrl-C. That takes the
    right to list pods and to create pods/portforward in the operator's namespace.
    """
    if operator is not None:
        _show(operator if "://" in operator else f"http://{operator}", browser=browser)
        return
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise errors.SettingsError(
            "kubectl is not in PATH, and it forwards the port; install it, or forward one yourself "
            f"(to port {USUAL_BIND.rpartition(':')[2]} of the operator's pod) and give --operator "
            "http://127.0.0.1:PORT"
        )
    replica = asyncio.run(
        _leader(namespace=namespace, selector=selector, kubeconfig=kubeconfig, context=context)
    )
    login = [
        *(("--kubeconfig", kubeconfig) if kubeconfig else ()),
        *(("--context", context) if context else ()),
    ]
    forward(forwarding(kubectl, replica, port=port, login=login), replica, browser=browser)


def forwarding(
    kubectl: str, replica: Replica, *, port: int, login: Sequence[str] = ()
) -> list[str]:
    """Return the command that forwards the port."""
    return [
        kubectl,
        *login,
        *("--namespace", replica.namespace, "port-forward", "--address", "127.0.0.1"),
        *(f"pod/{replica.pod}", f"{port or ''}:{replica.port}"),
    ]


def forward(command: Sequence[str], replica: Replica, *, browser: bool) -> None:
    """Run the command until it ends or Ctrl-C; say and open the address once it is there.

    Raises:
        SettingsError: nothing was forwarded.
    """
    was_there = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101  # it is a pipe
            for line in process.stdout:
                found = _FORWARDING.match(line)
                if found is not None and not was_there:
                    was_there = True
                    _show(f"{replica.scheme}://127.0.0.1:{found[1]}/", browser=browser)
                    options.note(f"this is {replica.pod}; Ctrl-C ends it")
        finally:
            process.terminate()
    if not was_there:
        raise errors.SettingsError(
            f"kubectl port-forward to pod {replica.namespace}/{replica.pod} failed: see above; "
            "it takes the right to create pods/portforward there"
        )
    raise errors.SettingsError(
        f"the connection to pod {replica.namespace}/{replica.pod} has ended; start vgpu ui again"
    )


def _show(url: str, *, browser: bool) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    if browser:
        import webbrowser

        if not webbrowser.open(url):
            options.note("no browser was found here; open that address in one")


async def _leader(
    *, namespace: str | None, selector: str, kubeconfig: str | None, context: str | None
) -> Replica:
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import paths

    async with await kube_client.KubeClient.connect(
        kubeconfig=kubeconfig, context=context
    ) as client:
        where = paths.namespaced(namespace, "pods") if namespace else paths.PODS
        pods, _ = await client.list(where, params={"labelSelector": selector})
        replicas = list(replicas_in(pods))
        holders = {
            replica.lease: await _holder(client, *replica.lease)
            for replica in replicas
            if replica.lease is not None
        }
    return chosen(replicas, holders, selector=selector)


async def _holder(client: kube_client.KubeClient, namespace: str, name: str) -> str:
    """Return who holds a Lease; nobody, where it cannot be read."""
    from vgpu_operator.kube import errors as kube_errors
    from vgpu_operator.kube import paths
    from vgpu_operator.wire import lease

    try:
        return lease.decode_lease(await client.get(paths.lease(namespace, name))).holder
    except (kube_errors.NotFound, kube_errors.Denied):
        return ""


def replicas_in(pods: Sequence[Mapping[str, Any]]) -> Iterator[Replica]:
    """Yield the pods that run the operator, as their arguments say."""
    from vgpu_operator.wire import workloads

    for pod in pods:
        arguments = list(workloads.template(pod["spec"]).words)
        if "run" not in arguments or "deletionTimestamp" in pod["metadata"]:
            continue
        said = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        space, _, name = said.get("--leader-lease", "none").partition("/")
        conditions = pod.get("status", {}).get("conditions") or ()
        yield Replica(
            namespace=pod["metadata"]["namespace"],
            pod=pod["metadata"]["name"],
            ready=any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
            bind=said.get("--state-bind", USUAL_BIND),
            lease=(space, name) if name else None,
        )


def chosen(
    replicas: Sequence[Replica],
    holders: Mapping[tuple[str, str], str],
    *,
    selector: str,
) -> Replica:
    """Return the replica that leads; where nobody is known to, one that is ready.

    Args:
        replicas: all that there are.
        holders: by Lease who holds it, in kube-scheduler's form: the pod's name, ``_``, an id.
        selector: how they were looked for.

    Raises:
        SettingsError: there is none, or its state page is switched off.
    """
    if not replicas:
        raise errors.SettingsError(
            f"no pod of the operator was found ({selector}); is it installed? Name its namespace "
            "with -n, its labels with -l, or its page with --operator URL"
        )

    def standing(replica: Replica) -> tuple[bool, bool, str]:
        holder = holders.get(replica.lease, "") if replica.lease is not None else ""
        leads = holder.startswith(f"{replica.pod}_")
        return not leads, not replica.ready, replica.pod

    best = min(replicas, key=standing)
    if not best.bind:
        raise errors.SettingsError(
            f"the state page of pod {best.namespace}/{best.pod} is switched off; set the chart's "
            "state.enabled to true"
        )
    return best
