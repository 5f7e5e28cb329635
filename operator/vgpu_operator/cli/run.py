"""``vgpu run``: the operator, in its pod or against any kubeconfig."""

import asyncio
import gc
import ipaddress
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vgpu_operator.cli import options as cli_options
from vgpu_operator.model import errors

LARGEST_CONFIG_BYTES = 2**20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    kubeconfig: Annotated[
        str | None,
        typer.Option(help="Kubeconfig file; without it the pod's service account, then kubectl's."),
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    config: cli_options.Config = None,
    device_config: cli_options.DeviceConfig = None,
    extender_bind: Annotated[
        str, typer.Option(help="Where kube-scheduler calls; loopback only.")
    ] = "127.0.0.1:8080",
    webhook_bind: Annotated[
        str | None, typer.Option(help="Where the API server calls, over TLS; absent = no webhook.")
    ] = None,
    webhook_cert: Annotated[Path | None, typer.Option(help="Certificate of the webhook.")] = None,
    webhook_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    webhook_host: Annotated[
        list[str] | None,
        typer.Option(help="Name for a certificate that is made when none is given; repeatable."),
    ] = None,
    webhook_ca_file: Annotated[
        Path | None, typer.Option(help="Where to write the CA of a made certificate.")
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            help="Secret that keeps a made certificate, as NAMESPACE/NAME: all replicas show it, "
            "the leader renews it."
        ),
    ] = None,
    webhook_configuration: Annotated[
        str | None,
        typer.Option(help="MutatingWebhookConfiguration that the leader tells its CA."),
    ] = None,
    metrics_bind: Annotated[str, typer.Option(help="Metrics and health.")] = "127.0.0.1:9395",
    state_bind: Annotated[
        str,
        typer.Option(
            help="State page and its API, read-only; empty = off. Beyond loopback over TLS, with "
            "the webhook's certificate, and for those who may list nodes and pods."
        ),
    ] = "127.0.0.1:9396",
    state_access: Annotated[
        str,
        typer.Option(
            help="Who may read the state page on loopback: everybody (open), or whoever shows a "
            "token of somebody who may list nodes and pods (token)."
        ),
    ] = "open",
    leader_lease: Annotated[
        str,
        typer.Option(help="Lease of our kube-scheduler as NAMESPACE/NAME, or none = always lead."),
    ] = "none",
    leader_hostname: Annotated[
        str | None, typer.Option(help="Hostname in the Lease's holder; default: this host's.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    log_format: Annotated[str, typer.Option(help="json or text.")] = "json",
) -> None:
    """Run the operator until SIGTERM or Ctrl-C."""
    # What is imported lives as long as the process: searching it for garbage again and
    # again is a tenth of the time to start.
    gc.disable()
    from vgpu_operator import app  # late: other commands need none of it
    from vgpu_operator.kube import listen

    level = log_level.upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise errors.SettingsError(
            f"--log-level {log_level!r} is unknown; write DEBUG, INFO, WARNING or ERROR"
        )
    if (webhook_cert is None) != (webhook_key is None):
        raise errors.SettingsError("--webhook-cert and --webhook-key go together; give both")
    if (webhook_secret is None) != (webhook_configuration is None):
        raise errors.SettingsError(
            "--webhook-secret and --webhook-configuration go together; give both"
        )
    if webhook_secret is not None and webhook_cert is not None:
        raise errors.SettingsError(
            "--webhook-cert gives a certificate and --webhook-secret has one made; give one of them"
        )
    if state_access not in ("open", "token"):
        raise errors.SettingsError(
            f"--state-access {state_access!r} is unknown; write open or token"
        )
    options = app.Options(
        settings=load_settings(config, device_config=device_config),
        extender_bind=listen.parse_address(extender_bind, option="--extender-bind"),
        metrics_bind=listen.parse_address(metrics_bind, option="--metrics-bind"),
        state_bind=(
            listen.parse_address(state_bind, option="--state-bind") if state_bind else None
        ),
        state_asks_for_token=state_access == "token",
        webhook_bind=(
            listen.parse_address(webhook_bind, option="--webhook-bind") if webhook_bind else None
        ),
        webhook_certificate=(
            (webhook_cert, webhook_key)
            if webhook_cert is not None and webhook_key is not None
            else None
        ),
        webhook_hosts=parse_hosts(webhook_host or ("localhost", "127.0.0.1")),
        webhook_ca_file=webhook_ca_file,
        webhook_secret=(
            split_name(webhook_secret, option="--webhook-secret", of="a Secret")
            if webhook_secret
            else None
        ),
        webhook_configuration=webhook_configuration or "",
        lease=parse_lease(leader_lease),
        hostname=leader_hostname or os.uname().nodename,
    )
    app.configure_logging(level=level, as_json=log_format == "json")
    _run_in_loop(_serve(options, kubeconfig=kubeconfig, context=context))


def _run_in_loop(work: Any) -> None:
    """Run in asyncio's own event loop.

    Not in uvloop: with aiohttp it loses track of file descriptors when connections
    fail or are given up (uvloop issues 646, 653), so that an API server that was
    killed took the operator down, or closed a connection that was somebody else's.
    """
    asyncio.run(work)


async def _serve(options: Any, *, kubeconfig: str | None, context: str | None) -> None:
    from vgpu_operator import app
    from vgpu_operator.kube import client

    gc.freeze()
    gc.enable()
    async with await client.KubeClient.connect(kubeconfig=kubeconfig, context=context) as kube:
        await app.Operator(options, kube).run()


def load_settings(path: Path | None, *, device_config: Path | None = None) -> Any:
    """Read the settings file, with HAMi's device configuration under it.

    Raises:
        SettingsError: a file cannot be read, is no YAML mapping, or a field is
            wrong; one sentence with the file and the path inside it.
    """
    from vgpu_operator.kube import text_file
    from vgpu_operator.model import settings, yaml_text

    values: Any = {}
    if path is not None:
        text = text_file.read(path, largest_bytes=LARGEST_CONFIG_BYTES)
        try:
            values = yaml_text.read(text).value
        except errors.SettingsError as fault:
            raise errors.SettingsError(f"{path}: {fault}") from fault
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise errors.SettingsError(f"{path} must hold a mapping, not a {type(values).__name__}")
    if device_config is not None:
        values = _with_devices(values, device_config)
    try:
        return settings.build(values)
    except errors.SettingsError as fault:
        raise errors.SettingsError(f"{path or device_config}: {fault}") from fault


def _with_devices(values: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return the values with the vendors of HAMi's device configuration under them."""
    from vgpu_operator.kube import text_file
    from vgpu_operator.model import device_config

    text = text_file.read(path, largest_bytes=LARGEST_CONFIG_BYTES)
    try:
        document = device_config.decode(text)
    except errors.SettingsError as fault:
        raise errors.SettingsError(f"{path}: {fault}") from fault
    return device_config.merged(values, document)


def parse_lease(text: str) -> tuple[str, str] | None:
    """Read ``none`` or ``NAMESPACE/NAME``.

    >>> parse_lease("kube-system/hami-scheduler")
    ('kube-system', 'hami-scheduler')

    Raises:
        SettingsError: it is neither.
    """
    if text == "none":
        return None
    return split_name(text, option="--leader-lease", of="a Lease, or none")


def parse_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return a certificate's names, and its addresses in their one usual form.

    >>> parse_hosts(["localhost", "2001:DB8::1", "0:0:0:0:0:0:0:1"])
    ('localhost', '2001:db8::1', '::1')

    Raises:
        SettingsError: a certificate cannot name one of them.
    """
    hosts = []
    for text in texts:
        try:
            hosts.append(str(ipaddress.ip_address(text)))
        except ValueError:
            hosts.append(text)
        if not hosts[-1].isascii() or "%" in hosts[-1] or not hosts[-1].strip():
            raise errors.SettingsError(
                f"--webhook-host {text!r} cannot stand in a certificate; write a DNS name in its "
                "ASCII form (xn--…), or an IP address without a zone"
            )
    return tuple(hosts)


def split_name(text: str, *, option: str, of: str) -> tuple[str, str]:
    """Read ``NAMESPACE/NAME``.

    Raises:
        SettingsError: it is no such text.
    """
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise errors.SettingsError(f"{option} {text!r} is not NAMESPACE/NAME of {of}")
    return namespace, name
