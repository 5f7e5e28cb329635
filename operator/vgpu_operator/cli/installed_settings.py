"""The settings that the operator of a cluster works with, from the ConfigMaps that it mounts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from vgpu_operator.cli import options, run
from vgpu_operator.flows.doctor import schedulers
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import errors, paths
from vgpu_operator.model import device_config, settings, yaml_text
from vgpu_operator.model import errors as model_errors
from vgpu_operator.wire import shape, workloads

SETTINGS: Final = "settings.yaml"
DEVICES: Final = "device-config.yaml"
"""Keys in the ConfigMaps, as the chart makes them."""

ASSUMED: Final = (
    "the installed operator's settings were not found or may not be read: the usual ones are"
    " assumed (--config and --device-config give others)"
)

_DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
_OF_THE_CHART: Final = {"labelSelector": "app.kubernetes.io/component=scheduler"}
"""Looked at first: a large cluster has thousands of Deployments."""


def given(config: Path | None, device_config: Path | None) -> settings.Settings | None:
    """Return the settings that the command line gives; None where it gives none.

    Raises:
        SettingsError: a file cannot be read, or what it says is wrong.
    """
    if config is None and device_config is None:
        return None
    configured: settings.Settings = run.load_settings(config, device_config=device_config)
    return configured


async def in_force(
    client: kube_client.KubeClient, by_hand: settings.Settings | None
) -> tuple[settings.Settings, str]:
    """Return the settings to judge by, and a sentence where they are only assumed.

    Where no operator is installed the usual ones are nobody's, and nothing is said.

    Args:
        client: of the cluster.
        by_hand: what the command line gives; that counts before what is installed.
    """
    if by_hand is not None:
        return by_hand, ""
    try:
        found = await _installed(client)
    except errors.Denied:
        return settings.Settings(), ASSUMED
    except (errors.ApiError, model_errors.SettingsError) as fault:
        return settings.Settings(), f"{ASSUMED}: {fault}"
    return (settings.Settings() if found is None else found), ""


async def announced(
    client: kube_client.KubeClient, by_hand: settings.Settings | None
) -> settings.Settings:
    """Return the settings to judge by; that they are only assumed is said on standard error."""
    configured, assumed = await in_force(client, by_hand)
    if assumed:
        options.note(f"note: {assumed}")
    return configured


async def read(client: kube_client.KubeClient) -> settings.Settings | None:
    """Return the settings; None where they cannot be seen.

    An installation with unusual names would be judged by the usual ones otherwise: pods
    of its scheduler would seem to wait for one that is not there.

    Raises:
        SettingsError: what stands there is wrong; the operator does not start with it either.
    """
    try:
        return await _installed(client)
    except (errors.Denied, errors.NotFound):
        return None


async def _installed(client: kube_client.KubeClient) -> settings.Settings | None:
    for params in (_OF_THE_CHART, None):
        found, _ = await client.list(_DEPLOYMENTS, params=params)
        for raw in found:
            one = workloads.deployment(raw)
            if schedulers.is_ours(one.template):
                return await _mounted(client, one)
    return None


async def _mounted(
    client: kube_client.KubeClient, one: workloads.Deployment
) -> settings.Settings | None:
    texts: dict[str, str] = {}
    for name in dict.fromkeys(one.template.config_maps):
        raw = await client.get(paths.namespaced(one.namespace, f"configmaps/{name}"))
        data = shape.mapping(raw.get("data"))
        for key in (SETTINGS, DEVICES):
            if key in data and key not in texts:
                texts[key] = shape.text(data[key])
    if not texts:
        return None
    try:
        return settings.build(_values(texts))
    except model_errors.SettingsError as fault:
        where = f"the ConfigMaps of Deployment {one.namespace}/{one.name}"
        raise model_errors.SettingsError(f"{where}: {fault}") from fault


def _values(texts: Mapping[str, str]) -> Mapping[str, Any]:
    read = yaml_text.read(texts.get(SETTINGS, "")).value
    values = read if isinstance(read, Mapping) else {}
    if DEVICES not in texts:
        return values
    return device_config.merged(values, device_config.decode(texts[DEVICES]))
