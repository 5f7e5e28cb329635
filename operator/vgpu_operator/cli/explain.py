"""``vgpu explain``: why a pod waits or is where it is, and what would make it fit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from vgpu_operator.cli import collector, completion, errors, operator_view, options, render

if TYPE_CHECKING:
    import datetime

    from vgpu_operator.cli import (
        cluster_books,
        explain_preemption,
        explain_report,
        explain_words,
    )
    from vgpu_operator.flows import books as flow_books
    from vgpu_operator.flows import what_if
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.model import settings


MOST_COPIES: Final = 500
"""Copies of a workload that are placed, one after another; of more it is said."""


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
    webhook's rules and defaults come first, and pods and copies count one after another.
    Without --config and --device-config the installed operator's own settings count. The
    exit code is 1 when the pod fits on no node.

    Examples: vgpu explain my-pod -n team-a; vgpu explain my-pod --node gpu-7;
    vgpu explain -f job.yaml
    """
    from vgpu_operator.cli import installed_settings

    if (name is None) == (filename is None):
        raise typer.BadParameter("give either a pod's name or -f FILE")
    if everything and node:
        raise typer.BadParameter("give either --all or --node")
    question = _Question(
        name=name,
        filename=filename,
        node=node or "",
        everything=everything,
        namespace=namespace,
        operator=operator,
        given=installed_settings.given(config, device_config),
        kubeconfig=kubeconfig,
        context=context,
    )
    reports = collector.run(_reports(question))
    _print(reports, output)
    if not all(_fits(report) for report in reports):
        raise typer.Exit(errors.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    name: str | None
    filename: str | None
    node: str
    everything: bool
    namespace: str | None
    operator: str | None
    given: settings.Settings | None
    kubeconfig: str | None
    context: str | None


def _print(reports: Sequence[explain_report.Report], output: render.Output) -> None:
    """Print the reports: one object or a list of them where a program reads."""
    from vgpu_operator.cli import explain_report

    if output not in (render.Output.JSON, render.Output.YAML):
        wide = output is render.Output.WIDE
        texts = [explain_report.text(report, options.screen(), wide=wide) for report in reports]
        sys.stdout.write("\n\n".join(texts) + "\n")
        return
    tables = [
        render.Table(
            kind="PodExplanation",
            columns=(),
            rows=explain_report.node_rows(report.found) if report.found is not None else [],
            extra=explain_report.whole(report),
        )
        for report in reports
    ]
    table = tables[0]
    if len(tables) > 1:
        rows = [{"kind": one.kind, **one.extra, "items": [*one.rows]} for one in tables]
        table = render.Table(kind="PodExplanationList", columns=(), rows=rows)
    sys.stdout.write(render.render(table, output, options.screen()) + "\n")


def _fits(report: explain_report.Report) -> bool:
    found, copies = report.found, report.copies
    if found is None or (report.left_out and not found.record.node):
        return False
    if copies is not None:
        return len(copies.placed) == copies.wanted
    return bool(found.record.node or found.takers or not found.record.request.wants_devices)


async def _reports(question: _Question) -> list[explain_report.Report]:
    from vgpu_operator.cli import (
        cluster_books,
        explain_preemption,
        installed_settings,
        kube_context,
        manifests,
    )
    from vgpu_operator.kube import client as kube_client
    from vgpu_operator.kube import clock, paths
    from vgpu_operator.kube import errors as kube_errors

    namespace = question.namespace or kube_context.default_namespace(
        kubeconfig=question.kubeconfig, context=question.context
    )
    found = manifests.read([question.filename]) if question.filename else None
    if found is not None and not (found.pods or found.templated):
        raise typer.BadParameter(f"{question.filename} holds no Pod and nothing that makes Pods")
    async with await kube_client.KubeClient.connect(
        kubeconfig=question.kubeconfig, context=question.context
    ) as client:
        now = clock.SystemClock().now()
        raw = None
        if question.name is not None:
            raw = await client.get(paths.pod(namespace, question.name))
        try:
            if question.node:
                await client.get(paths.node(question.node))
            objects = await cluster_books.list_objects(client)
        except kube_errors.Denied as fault:
            if raw is None:
                raise
            return [await _without_the_cluster(client, raw, now, fault)]
        configured, assumed = await installed_settings.in_force(client, question.given)
        rules = explain_preemption.Rules()
        if raw is None or not raw["spec"].get("nodeName"):
            rules = await explain_preemption.read_rules(client, is_new=raw is None)
        desk = _Desk(
            question=question,
            configured=configured,
            client=client,
            objects=objects,
            view=await operator_view.read(client, question.operator),
            now=now,
            pods=objects.bound(besides=raw["metadata"]["uid"] if raw else ""),
            rules=rules,
            unknown=(*([assumed] if assumed else []), *objects.unknown, *rules.unknown),
        )
        if found is not None:
            books = cluster_books.opened(objects, configured, now)
            pods = [*((pod, 1) for pod in found.pods), *found.templated]
            return [desk.would_be(books, pod, namespace, number) for pod, number in pods]
        return [await desk.why(raw or {})]


async def _without_the_cluster(
    client: kube_client.KubeClient,
    raw: Mapping[str, Any],
    now: datetime.datetime,
    fault: Exception,
) -> explain_report.Report:
    """Return what the pod itself and its events say, where the rest may not be read."""
    from vgpu_operator.cli import cluster_view, explain_report

    name = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
    told, unknown = await _events(client, raw)
    said = cluster_view.scheduler_message(raw)
    node = raw.get("spec", {}).get("nodeName")
    where = f"{name} is on {node}." if node else f"{name} waits for a node."
    last = f"kube-scheduler last said: {said}" if said else "kube-scheduler has said nothing of it."
    return explain_report.Report(
        pod=name,
        answer=[where] if node else [where, last],
        now=now,
        scheduler_words=said,
        events=told,
        unknown=(f"nodes and cards were not judged: {fault}", *unknown),
    )


async def _events(
    client: kube_client.KubeClient, raw: Mapping[str, Any]
) -> tuple[list[explain_words.Told], tuple[str, ...]]:
    from vgpu_operator.cli import explain_words
    from vgpu_operator.kube import errors as kube_errors
    from vgpu_operator.kube import paths
    from vgpu_operator.wire import clock_text

    metadata = raw["metadata"]
    try:
        events, _ = await client.list(
            paths.namespaced(metadata["namespace"], "events"),
            params={"fieldSelector": f"involvedObject.name={metadata['name']}"},
        )
    except kube_errors.ApiError as fault:
        why = "may not" if isinstance(fault, kube_errors.Denied) else f"could not ({fault})"
        return [], (f"Events {why} be listed: what was said of the pod is not known",)
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


@dataclass(slots=True, kw_only=True)
class _Desk:
    """Where pods are judged.

    Attributes:
        pods: those that stand beside the one that is judged, by node: the cluster's, and the
            file's that have found a node.
        rules: what decides about evictions besides the settings.
        settled: how many pods of the file have found a node.
    """

    question: _Question
    configured: settings.Settings
    client: kube_client.KubeClient
    objects: cluster_books.Objects
    view: operator_view.View
    now: datetime.datetime
    pods: dict[str, list[Mapping[str, Any]]]
    rules: explain_preemption.Rules
    unknown: tuple[str, ...]
    settled: int = 0

    async def why(self, raw: Mapping[str, Any]) -> explain_report.Report:
        """Return the report on a pod of the cluster."""
        from vgpu_operator.cli import (
            cluster_books,
            cluster_view,
            explain_preemption,
            explain_report,
            explain_words,
        )
        from vgpu_operator.flows import pod_events
        from vgpu_operator.model import settings

        uid = raw["metadata"]["uid"]
        left_out = cluster_books.left_out(self.configured, raw)
        configured = self.configured
        if left_out and raw.get("spec", {}).get("nodeName"):  # what it holds it holds all the same
            configured = settings.with_every_vendor(configured)
        books = cluster_books.opened(self.objects, configured, self.now, besides=uid)
        found = self._explained(books, raw)
        preemption = explain_preemption.preemption(
            books, found, self.rules, pods=self.objects.pods, now=self.now
        )
        told, unknown = await _events(self.client, raw)
        refused = None
        if self.question.node and not found.record.node:
            refused = self._refused(books, found, told)
        pod_events.pod_seen(books, found.record)  # from here on it counts with the others
        answer = self._answer(found, raw, left_out, new=False)
        if refused is not None:
            words = explain_words.refused(
                found, refused.node, refused.event, self.now, perhaps=refused.perhaps
            )
            answer = [*words, *answer]
        return explain_report.Report(
            pod=str(found.record.key),
            answer=answer,
            now=self.now,
            found=found,
            scheduler_words=cluster_view.scheduler_message(raw),
            events=told,
            refused=refused,
            preemption=preemption,
            left_out=left_out,
            operator=self._operator(books, found),
            unknown=(*self.unknown, *unknown),
        )

    def would_be(
        self, books: flow_books.Books, raw: Mapping[str, Any], namespace: str, copies: int
    ) -> explain_report.Report:
        """Return the report on a pod that is not there, or on several that are alike.

        Those that find a node count in the books from here on.
        """
        from vgpu_operator.cli import (
            cluster_books,
            explain_preemption,
            explain_report,
            explain_words,
        )
        from vgpu_operator.flows import json_patch, what_if

        metadata = raw["metadata"]
        raw = {**raw, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}}
        spec = {"schedulerName": "default-scheduler", **raw["spec"]}  # as the API server does
        raw = {**raw, "spec": {key: value for key, value in spec.items() if value is not None}}
        verdict = what_if.admitted(books, raw)
        name = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
        if not verdict.allowed:
            return explain_report.Report(
                pod=name,
                answer=[f"{name} would be refused at admission: {verdict.message}."],
                now=self.now,
                unknown=self.unknown,
            )
        raw = self.rules.with_priority(json_patch.applied(raw, verdict.patch))
        left_out = cluster_books.left_out(self.configured, raw)
        before = self.settled
        asked_for, copies = copies, min(copies, MOST_COPIES)
        found = shown = self._explained(books, self._copy(raw, 1, of=copies))
        placed = self._settle(books, raw, found, copies)
        answer = self._answer(found, raw, left_out, new=True)
        if copies > 1 and found.record.request.wants_devices:
            if len(placed) < copies:
                last = self._copy(raw, len(placed) + 1, of=copies)
                shown = self._explained(books, last) if placed else found
                answer = self._answer(shown, last, left_out, new=True)
            else:
                answer = []
            answer = [explain_words.copies(name, placed, copies), *answer]
        preemption = None
        if not placed:
            preemption = explain_preemption.preemption(
                books, shown, self.rules, pods=self.objects.pods, now=self.now
            )
        notes = list(verdict.warnings)
        if copies < asked_for:
            notes.append(f"only {copies} of the {asked_for} copies of {name} were judged")
        if before:
            notes.append(f"{before} of the file's pods before it count as placed")
        return explain_report.Report(
            pod=name,
            answer=answer,
            now=self.now,
            found=shown,
            copies=explain_report.Copies(wanted=copies, placed=placed) if copies > 1 else None,
            preemption=preemption,
            left_out=left_out,
            operator=self._operator(books, shown),
            unknown=(*notes, *self.unknown),
        )

    def _copy(self, raw: Mapping[str, Any], number: int, *, of: int) -> dict[str, Any]:
        """Return one of the pods that a workload makes; no two of a file have the same UID."""
        name = raw["metadata"]["name"]
        named = {"name": f"{name}-{number}" if of > 1 else name, "uid": f"new-{self.settled}"}
        return {**raw, "metadata": {**raw["metadata"], **named}}

    def _settle(
        self,
        books: flow_books.Books,
        raw: Mapping[str, Any],
        found: what_if.Explanation,
        copies: int,
    ) -> list[str]:
        """Place the copies one after another; return the nodes of those that find one."""
        from vgpu_operator.flows import what_if

        placed: list[str] = []
        if found.record.scheduler != self.configured.scheduler_name:
            return placed
        while found.record.request.wants_devices and len(placed) < copies:
            one = self._copy(raw, len(placed) + 1, of=copies)
            node = what_if.settle(books, self._case(books, one), found, self.now)
            if node is None:
                break
            bound = {**one, "spec": {**one["spec"], "nodeName": node}}
            self.pods.setdefault(node, []).append(bound)
            self.settled += 1
            placed.append(node)
        return placed

    def _explained(self, books: flow_books.Books, raw: Mapping[str, Any]) -> what_if.Explanation:
        from vgpu_operator.flows import what_if

        return what_if.explain(
            books,
            self._case(books, raw),
            self.now,
            detailed=None if self.question.everything else what_if.NEAREST,
            only=self.question.node,
        )

    def _case(self, books: flow_books.Books, raw: Mapping[str, Any]) -> what_if.Case:
        from vgpu_operator.cli import cluster_books
        from vgpu_operator.flows import what_if

        return what_if.Case(
            pod=raw,
            record=cluster_books.pod_record(books, raw),
            nodes=self.objects.nodes,
            pods=self.pods,
        )

    def _answer(
        self,
        found: what_if.Explanation,
        raw: Mapping[str, Any],
        left_out: Sequence[str],
        *,
        new: bool,
    ) -> list[str]:
        from vgpu_operator.cli import explain_words

        chips = ", ".join(left_out)
        name = str(found.record.key)
        if left_out and not found.record.request.wants_devices:
            return [
                f"{name} asks for {chips}, which the operator's settings leave out: it places no"
                " such pod, and where it goes is kube-scheduler's business alone."
            ]
        scheduler = self.configured.scheduler_name
        answer = explain_words.answer(found, raw=raw, scheduler=scheduler, new=new)
        if left_out:
            answer = [*answer, f"The operator's settings leave {chips} out: nobody counts it."]
        return answer

    def _operator(self, books: flow_books.Books, found: what_if.Explanation) -> dict[str, Any]:
        shown = [node.name for node in found.nodes if node.cards]
        differences = operator_view.differences(
            books.ledger, books.by_keyword, self.view, nodes=shown
        )
        return operator_view.members(self.view, differences)

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
        refusals = [one for one in told if one.reason == "FilteringFailed"]
        event = next((one for one in refusals if explain_report.names(one.message, node)), None)
        perhaps = event is None
        if event is None:
            event = next((one for one in refusals if explain_report.is_cut(one.message)), None)
        state = None
        if event is not None and event.time is not None and node in books.nodes:
            state = back_then.look_back(books, found.record.request, node, event.time)
        return explain_report.Refused(
            node=node, event=event, state=state, perhaps=perhaps and event is not None
        )
