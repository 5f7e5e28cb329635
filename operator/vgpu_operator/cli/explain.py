"""``vgpu explain``: why a pod waits or is where it is, and what would make it fit."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_operator.cli import completion, errors, operator_view, options, render

if TYPE_CHECKING:
    import datetime

    from vgpu_operator.cli import cluster_books, explain_report, explain_words
    from vgpu_operator.flows import books as flow_books
    from vgpu_operator.flows import what_if
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.model import settings


def register(app: typer.Typer) -> None:
    """Add the command to the parser."""
    app.command("explain")(explain)


def explain(
    name: Annotated[
        str | None,
        typer.Argument(metavar="POD", help="The pod.", autocompletion=completion.pod_names),
    ] = None,
    filename: Annotated[
        str | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="A manifest instead of a pod of the cluster: what would become of it; - reads "
            "standard input.",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--node",
            metavar="NAME",
            autocompletion=completion.node_names,
            help="Only this node card by card, and what it was like when the pod was refused.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every node card by card.", show_default=False)
    ] = False,
    namespace: options.Namespace = None,
    output: options.Output = render.Output.TABLE,
    operator: operator_view.Operator = None,
    config: options.Config = None,
    device_config: options.DeviceConfig = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Say why a pod waits, or why it is where it is, and the smallest change that helps.

    Every node and card is judged by the operator's own scheduling code, from what nodes
    and pods say now; nothing is written and no operator needs to run. With -f the
    webhook's rules and defaults come first. Give the operator's settings (--config)
    where they rename resources or set policies. The exit code is 1 when the pod fits on
    no node.

    Examples: vgpu explain my-pod -n team-a; vgpu explain my-pod --node gpu-7;
    vgpu explain -f job.yaml
    """
    from vgpu_operator.cli import run

    if (name is None) == (filename is None):
        raise typer.BadParameter("give either a pod's name or -f FILE")
    if everything and node:
        raise typer.BadParameter("give either --all or --node")
    question = _Question(
        name=name,
        filename=filename,
        node=node or "",
        detailed=None if everything else _nearest(),
        namespace=namespace,
        operator=operator,
        configured=run.load_settings(config, device_config=device_config),
        kubeconfig=kubeconfig,
        context=context,
    )
    reports = asyncio.run(_reports(question))
    for place, report in enumerate(reports):
        _print(report, output, first=place == 0)
    if not all(_fits(report) for report in reports):
        raise typer.Exit(errors.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    name: str | None
    filename: str | None
    node: str
    detailed: int | None
    namespace: str | None
    operator: str | None
    configured: settings.Settings
    kubeconfig: str | None
    context: str | None


def _nearest() -> int:
    from vgpu_operator.flows import what_if

    return what_if.NEAREST


def _print(report: explain_report.Report, output: render.Output, *, first: bool) -> None:
    from vgpu_operator.cli import explain_report

    if output in (render.Output.JSON, render.Output.YAML):
        rows = explain_report.node_rows(report.found) if report.found is not None else []
        table = render.Table(
            kind="PodExplanation", columns=(), rows=rows, extra=explain_report.whole(report)
        )
        between = "---\n" if output is render.Output.YAML and not first else ""
        sys.stdout.write(between + render.render(table, output, options.screen()) + "\n")
        return
    text = explain_report.text(report, options.screen(), wide=output is render.Output.WIDE)
    sys.stdout.write(("" if first else "\n") + text + "\n")


def _fits(report: explain_report.Report) -> bool:
    found = report.found
    if found is None:
        return False
    return bool(found.record.node or found.takers or not found.record.request.wants_devices)


async def _reports(question: _Question) -> list[explain_report.Report]:
    from vgpu_operator.cli import cluster_books, kube_context, manifests
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import clock, paths

    namespace = question.namespace or kube_context.default_namespace(
        kubeconfig=question.kubeconfig, context=question.context
    )
    found = manifests.read([question.filename]) if question.filename else None
    if found is not None and not (pods := [*found.pods, *found.templated]):
        raise typer.BadParameter(f"{question.filename} holds no Pod and nothing that makes Pods")
    async with await kube_client.KubeClient.connect(
        kubeconfig=question.kubeconfig, context=question.context
    ) as client:
        now = clock.SystemClock().now()
        if found is None and question.name is not None:
            raw = await client.get(paths.pod(namespace, question.name))
            pods = [raw]
        if question.node:
            await client.get(paths.node(question.node))
        objects = await cluster_books.list_objects(client)
        view = await operator_view.read(client, question.operator)
        desk = _Desk(question=question, client=client, objects=objects, view=view, now=now)
        if found is not None:
            return [desk.would_be(raw, namespace) for raw in pods]
        return [await desk.why(pods[0])]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    question: _Question
    client: kube_client.KubeClient
    objects: cluster_books.Objects
    view: operator_view.View
    now: datetime.datetime

    async def why(self, raw: Mapping[str, Any]) -> explain_report.Report:
        """Return the report on a pod of the cluster."""
        from vgpu_operator.cli import cluster_books, cluster_view, explain_report, explain_words
        from vgpu_operator.flows import pod_events

        uid = raw["metadata"]["uid"]
        books = cluster_books.opened(self.objects, self.question.configured, self.now, besides=uid)
        found = self._explained(books, raw)
        told, unknown = await self._events(raw)
        refused = None
        if self.question.node and not found.record.node:
            refused = self._refused(books, found, told)
        pod_events.pod_seen(books, found.record)  # from here on it counts with the others
        answer = self._answer(found, raw, new=False)
        if refused is not None:
            answer = [*explain_words.refused(found, refused.node, refused.event, self.now), *answer]
        return explain_report.Report(
            pod=str(found.record.key),
            answer=answer,
            now=self.now,
            found=found,
            scheduler_words=cluster_view.scheduler_message(raw),
            events=told,
            refused=refused,
            operator=self._operator(books, found),
            unknown=(*self.objects.unknown, *unknown),
        )

    def would_be(self, raw: Mapping[str, Any], namespace: str) -> explain_report.Report:
        """Return the report on a pod that is not there."""
        from vgpu_operator.cli import cluster_books, explain_report
        from vgpu_operator.flows import json_patch, what_if

        metadata = raw["metadata"]
        raw = {**raw, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}}
        spec = {"schedulerName": "default-scheduler", **raw["spec"]}  # as the API server does
        raw = {**raw, "spec": {key: value for key, value in spec.items() if value is not None}}
        books = cluster_books.opened(self.objects, self.question.configured, self.now)
        verdict = what_if.admitted(books, raw)
        name = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
        if not verdict.allowed:
            return explain_report.Report(
                pod=name,
                answer=[f"{name} would be refused at admission: {verdict.message}."],
                now=self.now,
                unknown=self.objects.unknown,
            )
        raw = json_patch.applied(raw, verdict.patch)
        found = self._explained(books, raw)
        return explain_report.Report(
            pod=name,
            answer=self._answer(found, raw, new=True),
            now=self.now,
            found=found,
            operator=self._operator(books, found),
            unknown=(*verdict.warnings, *self.objects.unknown),
        )

    def _explained(self, books: flow_books.Books, raw: Mapping[str, Any]) -> what_if.Explanation:
        from vgpu_operator.cli import cluster_books
        from vgpu_operator.flows import what_if

        record = cluster_books.pod_record(books, raw)
        case = what_if.Case(
            pod=raw,
            record=record,
            nodes=self.objects.nodes,
            pods=self.objects.bound(besides=record.key.uid),
            priorities=self.objects.priorities(),
        )
        return what_if.explain(
            books, case, self.now, detailed=self.question.detailed, only=self.question.node
        )

    def _answer(
        self, found: what_if.Explanation, raw: Mapping[str, Any], *, new: bool
    ) -> list[str]:
        from vgpu_operator.cli import explain_words

        scheduler = self.question.configured.scheduler_name
        return explain_words.answer(found, raw=raw, scheduler=scheduler, new=new)

    def _operator(self, books: flow_books.Books, found: what_if.Explanation) -> dict[str, Any]:
        shown = [node.name for node in found.nodes if node.cards]
        differences = operator_view.differences(
            books.ledger, books.by_keyword, self.view, nodes=shown
        )
        return operator_view.members(self.view, differences)

    async def _events(
        self, raw: Mapping[str, Any]
    ) -> tuple[list[explain_words.Told], tuple[str, ...]]:
        from vgpu_operator.cli import explain_words
        from vgpu_operator.kube import errors as kube_errors
        from vgpu_operator.kube import paths
        from vgpu_operator.wire import clock_text

        metadata = raw["metadata"]
        try:
            events, _ = await self.client.list(
                paths.namespaced(metadata["namespace"], "events"),
                params={"fieldSelector": f"involvedObject.name={metadata['name']}"},
            )
        except kube_errors.Denied:
            return [], ("Events may not be listed: what was said of the pod is not known",)
        told = [
            explain_words.Told(
                reason=str(event.get("reason", "")),
                message=str(event.get("message", "")),
                time=clock_text.decode_time(
                    str(
                        event.get("lastTimestamp")
                        or event.get("eventTime")
                        or event["metadata"].get("creationTimestamp")
                        or ""
                    )
                ),
                count=int(event.get("count") or 1),
            )
            for event in events
            if event.get("involvedObject", {}).get("uid") == metadata["uid"]
        ]
        told.sort(key=lambda event: event.time.timestamp() if event.time else 0.0, reverse=True)
        return told, ()

    def _refused(
        self,
        books: flow_books.Books,
        found: what_if.Explanation,
        told: list[explain_words.Told],
    ) -> explain_report.Refused:
        """Return what the node was like at the last event that names it."""
        from vgpu_operator.cli import explain_report
        from vgpu_operator.flows import back_then

        node = self.question.node
        event = next(
            (
                one
                for one in told
                if one.reason == "FilteringFailed" and explain_report.names(one.message, node)
            ),
            None,
        )
        state = None
        if event is not None and event.time is not None and node in books.nodes:
            state = back_then.look_back(books, found.record.request, node, event.time)
        return explain_report.Refused(node=node, event=event, state=state)
