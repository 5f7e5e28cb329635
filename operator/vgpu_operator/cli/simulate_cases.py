"""``vgpu simulate --cases``: one JSON line in, one JSON line out.

The form of both is in ``tests/vectors/README.md``. A case is one fresh
operator that trusts annotations as HAMi does. No clock runs, so a lock that
would be waited for is an error.
"""

import datetime
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from vgpu_operator.cli import simulate_answer, simulate_codec, simulate_shape
from vgpu_operator.flows import dry_run, simulate
from vgpu_operator.model import device_config, errors, settings
from vgpu_operator.vendors import base, mig, registry, topology
from vgpu_operator.wire import keys, shape

Json: TypeAlias = dict[str, Any]


def answers(lines: Iterable[bytes | str]) -> Iterator[str]:
    """Yield one answer a line; blank lines are passed over."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _answer_line(line, number)


def _answer_line(line: bytes | str, number: int) -> str:
    """Return the answer as JSON, or what is wrong with the line."""
    name: str | None = None
    try:
        case = orjson.loads(line)
        name = _name(case, number)
        return _encode({"name": name, "answer": answer(case)})
    except orjson.JSONDecodeError as fault:
        words = f"line {number} is no JSON: {fault}"
    except errors.VgpuError as fault:
        words = str(fault)
    except Exception as fault:  # the other lines are to be answered all the same
        words = f"line {number} cannot be answered: {type(fault).__name__}: {fault}"
    return _encode({"name": name, "error": words})


def _name(case: object, number: int) -> str | None:
    """Return the name of what ought to be a case."""
    if not isinstance(case, dict):
        raise errors.VgpuError(f"line {number}: a case is an object")
    name = case.get("name")
    if name is not None and not isinstance(name, str):
        raise errors.VgpuError(f"line {number}: name is no text; put it in quotes")
    return name


def _encode(found: Json) -> str:
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


def answer(case: Mapping[str, Any]) -> Json:
    """Return what this operator answers to one case.

    Raises:
        VgpuError: the case, or the configuration in it, cannot be meant.
    """
    if "kind" in case:
        return simulate_codec.answer(case)
    simulate_shape.check(case)
    flags = case.get("flags") or {}
    configured, vendors = _configured(orjson.dumps(flags, option=orjson.OPT_SORT_KEYS).decode())
    recorded = case.get("record") or ()
    now = simulate_shape.now(case)
    world = simulate.Simulation(configured, vendors)
    world.see_quotas(shape.mappings(case.get("quotas")))
    world.see_pods(shape.mappings(case.get("pods")))
    earlier = shape.mappings(case.get("earlier"))
    for state in sorted(earlier, key=lambda state: -state["seconds_before"]):
        then = now - datetime.timedelta(seconds=state["seconds_before"])
        world.see_nodes(shape.mappings(state.get("nodes")), then)
    nodes = shape.mappings(case.get("nodes"))
    registered = world.see_nodes(nodes, now)
    found: Json = {"devices": {name: _devices(world, name) for name in registered}}
    if "node_annotations" in recorded:
        found["node_annotations_written"] = {
            name: simulate_answer.placeholders(texts, now)
            for name, texts in registered.items()
            if texts
        }
    pod = shape.mapping(case.get("pod"))
    if not pod:
        return found
    return found | _placed(world, case, pod, tuple(registered), now)


def _placed(
    world: simulate.Simulation,
    case: Mapping[str, Any],
    pod: Mapping[str, Any],
    nodes: Sequence[str],
    now: datetime.datetime,
) -> Json:
    """Return what becomes of the case's pod."""
    found: Json = {}
    if _opts_out(pod):
        found["admission"] = {"called": False, "allowed": True}
    else:
        admitted = world.admit(pod)
        found["admission"] = simulate_answer.admission(pod, admitted)
        if not admitted.verdict.allowed:
            return found
        pod = admitted.pod
    record = world.record(pod)
    found["usage_before"] = {
        name: rows
        for name in nodes
        if (rows := simulate_answer.usage_before(world.usage(name), _instances(world, name)))
    }
    if record.scheduler != world.books.settings.scheduler_name:
        return found | {"filter": {"called": False}}
    found["requests"] = simulate_answer.requests(record.request.containers)
    if "simulation" in (case.get("record") or ()):
        tried = dry_run.filter_objects(world.books, record, shape.mappings(case.get("nodes")))
        found["simulation"] = simulate_answer.dry_run(tried.fitting, tried.rejections)
    placed = world.place(record, nodes, now)
    found["filter"] = simulate_answer.filtered(placed, nodes)
    found["annotations"] = simulate_answer.written(placed, now)
    found["labels"] = dict(placed.labels)
    if placed.bound is not None:
        found["usage_after"] = simulate_answer.usage(placed.usage)
        found["bind"] = simulate_answer.bound(placed.bound, now)
    return found


def _devices(world: simulate.Simulation, node: str) -> Json | None:
    """Return a node's registered cards by vendor; None when there are none."""
    links = _links(world, node)
    return {
        keyword: [simulate_answer.card(card, links.get(card.id)) for card in cards]
        for keyword, cards in world.devices(node).items()
    } or None


def _links(world: simulate.Simulation, node: str) -> topology.PairScores:
    """Return how well the node says that its NVIDIA cards are linked."""
    return topology.pair_scores_in(world.books.nodes[node].notes)


def _instances(world: simulate.Simulation, node: str) -> dict[str, list[mig.Instance]]:
    """Return the MIG instances that pods hold on a node, by card and where they lie."""
    found: dict[str, list[mig.Instance]] = {}
    for record in world.books.ledger.records():
        if record.node != node or record.ended:
            continue
        try:
            held = mig.decode_allocations(record.request.notes.get(mig.ALLOCATIONS_KEY, ""))
        except errors.DecodeError:
            continue
        for one in held:
            found.setdefault(one.device_id, []).append(one)
    for instances in found.values():
        instances.sort(key=lambda one: one.placement.start)
    return found


def _opts_out(pod: Mapping[str, Any]) -> bool:
    labels = shape.mapping(shape.mapping(pod.get("metadata")).get("labels"))
    return labels.get(keys.WEBHOOK_LABEL) == keys.WEBHOOK_IGNORE


@functools.lru_cache(maxsize=64)
def _configured(flags: str) -> tuple[settings.Settings, tuple[base.Vendor, ...]]:
    """Return settings and vendors of one configuration, built once."""
    given = orjson.loads(flags)
    policies = {theirs: given[flag] for flag, theirs in _POLICY_FLAGS.items() if flag in given}
    values: Json = {
        "ledger": {"trust": settings.Trust.ANNOTATIONS},
        "defaultSchedulerPolicy": policies,
        "vendors": _vendors_section(given.get("device_config") or {}),
    }
    if "force_overwrite_default_scheduler" in given:
        values["forceOverwriteDefaultScheduler"] = given["force_overwrite_default_scheduler"]
    configured = settings.with_every_vendor(settings.build(values))
    return configured, registry.build(configured)


def _vendors_section(hamis: Json) -> Json:
    """Return our section for HAMi's device configuration."""
    try:
        document = device_config.decode(orjson.dumps(hamis).decode())
    except errors.SettingsError as fault:
        raise errors.SettingsError(f"flags.device_config: {fault}") from fault
    return dict(device_config.vendor_values(document))


_POLICY_FLAGS = {
    "node_scheduler_policy": "nodeSchedulerPolicy",
    "gpu_scheduler_policy": "gpuSchedulerPolicy",
}
