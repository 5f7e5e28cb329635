"""The chart on a real API server: installed, used with its own rights, changed, removed."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from support import chart_cluster
from support.chart_release import NAME, WEBHOOK, Release, release
from support.helm import CHART, NAMESPACE, RELEASE, Helm
from support.samples import Samples
from support.world import fetch, nvidia_pod
from vgpu_operator.kube import clock, errors, paths
from vgpu_operator.webhook import issue
from vgpu_operator.wire import kept_certificate

pytestmark = pytest.mark.apiserver

NODES = {"nodes": [{"prefix": "sim-", "count": 2, "cards": 2}], "roundInterval": 0.5}


async def create_pods(here: Release, *names: str) -> None:
    for name in names:
        await here.kube.create(paths.namespaced("default", "pods"), nvidia_pod(name))


async def certificate_and_trust(here: Release) -> tuple[str, str]:
    secret = await here.read("Secret", f"{NAME}-tls")
    (hook,) = (await here.read("MutatingWebhookConfiguration", WEBHOOK))["webhooks"]
    return secret.get("data", {}).get("tls.crt", ""), hook["clientConfig"].get("caBundle", "")


def grown(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {path for path in after.keys() - before.keys() if "/nodes/" not in path}


async def test_a_release_lives_from_its_installation_to_its_removal(
    helm: Helm, tmp_path: Path
) -> None:
    async with release(helm, tmp_path) as here:
        before = await chart_cluster.everything(here.kube)
        here.values["scheduler"]["nodeLockExpire"] = "5m"
        notes = here.install()
        assert "scheduler.nodeLockExpire: it has no effect in HAMi" in notes
        assert "scheduler.patch" not in notes
        await here.start()

        # Pods are changed by the webhook, placed by the extender, served by the nodes.
        async with here.simulate(NODES):
            await create_pods(here, "a", "b", "c", "d")
            await here.until_phase("success", "a", "b", "c", "d")
            pod = await here.kube.get(paths.pod("default", "a"))
            assert pod["spec"]["schedulerName"] == "hami-scheduler"
            first = await certificate_and_trust(here)
            assert all(first)

            # An upgrade and its taking back leave certificate, trust and running pods alone.
            changed = {**here.values, "resourceCores": "example.com/cores"}
            here.change("upgrade", RELEASE, str(CHART), values=changed)
            config = await here.read("ConfigMap", NAME)
            assert "example.com/cores" in config["data"]["config.yaml"]
            assert await certificate_and_trust(here) == first
            here.change("rollback", RELEASE, "1")
            assert await certificate_and_trust(here) == first
            await create_pods(here, "e")
            await here.until_phase("success", "a", "b", "c", "d", "e")

        refused = [one.uri for one in here.requests() if one.code in (401, 403)]
        assert refused == []
        asked = {(one.verb, one.resource, one.subresource) for one in here.requests()}
        assert {
            *(("create", "pods", "binding"), ("patch", "nodes", ""), ("watch", "pods", "")),
            *(("patch", "secrets", ""), ("patch", "mutatingwebhookconfigurations", "")),
            *(("get", "leases", ""), ("update", "leases", "")),
        } <= asked
        # Informers list or watch, as their version likes.
        seen = {resource for verb, resource, _ in asked if verb in ("list", "watch")}
        assert {"resourceclaims", "resourceslices", "deviceclasses"} <= seen

        # What the pre-delete hook does, as its account; no kubelet runs the Job here.
        await here.stop()
        await here.plane.components["chart-scheduler"].stop()
        job = (await here.hook("cleanup"))["spec"]["template"]["spec"]
        account = chart_cluster.service_account(here.plane, job["serviceAccountName"])
        ran = here.vgpu(account, *job["containers"][0]["args"])
        assert ran.returncode == 0, ran.stderr
        here.change("uninstall", RELEASE, "--no-hooks")

        after = await chart_cluster.everything(here.kube)
        assert grown(before, after) == set()
        plugins_own = {"hami.io/node-nvidia-register"}
        for path, node in after.items():
            if "/nodes/" in path:
                left = node["metadata"].get("annotations", {}).keys()
                assert {key for key in left if "hami.io" in key or "vgpu" in key} <= plugins_own
        for name in ("a", "b", "c", "d", "e"):
            pod = await here.kube.get(paths.pod("default", name))
            assert pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]
        again = here.vgpu(here.plane.kubeconfig, "cleanup", "--dry-run")
        assert (again.returncode, again.stderr) == (0, "nothing is left on any node\n")


async def test_a_certificate_and_its_authority_are_renewed_while_pods_are_admitted(
    helm: Helm, tmp_path: Path
) -> None:
    async with release(helm, tmp_path) as here:
        here.install()
        await here.start()
        kept = kept_certificate.decode_secret(await here.read("Secret", f"{NAME}-tls"))
        faults: list[str] = []
        admitted: list[str] = []
        stop = asyncio.Event()

        async def admit_ten_a_second() -> None:
            while not stop.is_set():
                number = len(admitted) + len(faults)
                try:
                    pod = await chart_cluster.dry_run(here.kube, nvidia_pod(f"p{number}"))
                    admitted.append(pod["spec"]["schedulerName"])
                except errors.ApiError as fault:
                    faults.append(str(fault))
                await asyncio.sleep(0.1)

        async def replace_kept(changed: kept_certificate.Kept) -> None:
            data = kept_certificate.encode_data(changed)
            await here.kube.patch(f"{secrets}/{NAME}-tls", {"data": data})

        secrets = chart_cluster.collection("Secret")
        now = clock.SystemClock().now()
        load = asyncio.create_task(admit_ten_a_second())
        try:
            # Nearly spent: ten minutes of seventy are left.
            pem, key = issue.certificate(
                kept.bundle,
                kept.authority_key,
                ["127.0.0.1", f"{NAME}.{NAMESPACE}.svc"],
                now,
                lifetime=timedelta(minutes=10),
            )
            await replace_kept(replace(kept, certificate=pem, key=key))

            async def renewed() -> bool:
                shown = x509.load_pem_x509_certificate(await here.shown_certificate())
                return shown.not_valid_after_utc > now + timedelta(days=80) and (
                    shown.public_bytes(serialization.Encoding.PEM) != kept.certificate
                )

            await here.until("a renewed certificate is shown", renewed)

            # The authority is near its end too: the next one takes over in two steps.
            kept = kept_certificate.decode_secret(await here.read("Secret", f"{NAME}-tls"))
            ending, ending_key = issue.authority(now, lifetime=timedelta(minutes=10))
            await trust(here, kept.bundle + ending)
            pem, key = issue.certificate(
                ending, ending_key, ["127.0.0.1", f"{NAME}.{NAMESPACE}.svc"], now
            )
            await replace_kept(
                replace(
                    kept,
                    bundle=ending + kept.bundle,
                    authority_key=ending_key,
                    certificate=pem,
                    key=key,
                )
            )

            async def followed() -> bool:
                shown = kept_certificate.decode_secret(await here.read("Secret", f"{NAME}-tls"))
                facts = kept_certificate.facts(shown)
                assert facts is not None
                return (
                    facts.by_newest
                    and facts.authority.until > now + timedelta(days=1000)
                    and await here.shown_certificate() == shown.certificate
                )

            await here.until("the next authority has taken over", followed, limit_s=90)
        finally:
            stop.set()
            await load

        assert faults == []
        assert len(admitted) > 100
        assert set(admitted) == {"hami-scheduler"}
        page = Samples(await fetch(f"{here.metrics_url}/metrics"))
        end_s = page.total("vgpu_webhook_certificate_expiry_timestamp_seconds")
        shown = x509.load_pem_x509_certificate(await here.shown_certificate())
        assert end_s == shown.not_valid_after_utc.timestamp()


async def trust(here: Release, bundle: bytes) -> None:
    """Put authorities into the webhook, as somebody who has rights to all."""
    path = f"{chart_cluster.collection('MutatingWebhookConfiguration')}/{WEBHOOK}"
    hooks = (await here.kube.get(path))["webhooks"]
    for hook in hooks:
        hook["clientConfig"]["caBundle"] = kept_certificate.encode(bundle)
    await here.kube.patch(path, {"webhooks": hooks})
