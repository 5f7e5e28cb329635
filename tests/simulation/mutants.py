"""Deliberate defects, one at a time: does the simulation find them?

Each is put in at a named place of the production code for as long as a
history runs. ``known`` has a history that finds each; they are looked for anew
with ``make simulate-mutants``.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from unittest import mock

from vgpu_operator.flows import (
    bind,
    binding,
    books,
    effects,
    leaving,
    lock_needs,
    locks,
    one_node,
    pod_events,
    reconcile,
    register,
    take_locks,
    wake,
)
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.flows import leadership as flow_leadership
from vgpu_operator.flows.preemption import candidates, course, plan, take_over
from vgpu_operator.kube import errors, intake, paths, perform
from vgpu_operator.ledger import ledger
from vgpu_operator.ledger import nodes as ledger_nodes
from vgpu_operator.machines import bind_phase, handshake, node_lock
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.wire import resource_version

Patch: TypeAlias = contextlib.AbstractContextManager[Any]


def swallow_node_conflicts() -> Patch:
    """A 409 for a Node's patch counts as done."""
    real = perform.Performer._patch_node

    async def patch_node(self: perform.Performer, effect: effects.PatchNode) -> str:
        try:
            return await real(self, effect)
        except errors.Conflict:
            return effect.resource_version or ""

    return mock.patch.object(perform.Performer, "_patch_node", patch_node)


def swallow_binding_conflicts() -> Patch:
    """A 409 for a Binding counts as bound."""
    real = perform.Performer._bind

    async def bind_pod(self: perform.Performer, effect: effects.BindPod) -> None:
        with contextlib.suppress(errors.Conflict):
            await real(self, effect)

    return mock.patch.object(perform.Performer, "_bind", bind_pod)


def take_locks_unconditionally() -> Patch:
    """Patches of Nodes carry no version."""
    real = perform.Performer._patch_node

    async def patch_node(self: perform.Performer, effect: effects.PatchNode) -> str:
        bare = effects.PatchNode(node=effect.node, annotations=effect.annotations)
        return await real(self, bare)

    return mock.patch.object(perform.Performer, "_patch_node", patch_node)


def bind_in_two_steps() -> Patch:
    """The promise is written after the Binding, as HAMi does."""

    async def bind_pod(self: perform.Performer, effect: effects.BindPod) -> None:
        path = paths.pod(effect.pod.namespace, effect.pod.name)
        body = {
            "metadata": {
                "name": effect.pod.name,
                "uid": effect.pod.uid,
                "resourceVersion": effect.resource_version,
            },
            "target": {"name": effect.node},
        }
        await self._client.create(f"{path}/binding", body)
        await self._client.patch(path, {"metadata": {"annotations": dict(effect.annotations)}})

    return mock.patch.object(perform.Performer, "_bind", bind_pod)


def take_no_answer_for_no() -> Patch:
    """A request without answer counts as refused."""
    real = perform.translated

    def translated(fault: errors.ApiError) -> effects.EffectFailed:
        found = real(fault)
        return effects.Denied(str(fault)) if isinstance(found, effects.Doubtful) else found

    return mock.patch.object(perform, "translated", translated)


def forget_pods_that_are_deleting() -> Patch:
    """Cards are free as soon as a pod's deletion is asked for."""
    real = intake.Intake.pod_event

    def pod_event(self: intake.Intake, kind: str, raw: Any) -> None:
        gone = "deletionTimestamp" in raw["metadata"]
        real(self, "DELETED" if gone else kind, raw)

    return mock.patch.object(intake.Intake, "pod_event", pod_event)


def forget_pods_that_failed() -> Patch:
    """``bind-phase: failed`` frees the cards."""
    real = pod_events.pod_seen

    def pod_seen(books_: books.Books, record: Any) -> effects.Reaction:
        if record.node and bind_phase.state(record) is bind_phase.State.FAILED:
            return pod_events.pod_gone(books_, record.key)
        return real(books_, record)

    return mock.patch.object(pod_events, "pod_seen", pod_seen)


def keep_reservations() -> Patch:
    """Cards of a bind that failed stay counted."""
    return _always(ledger.Ledger, "unassume", None)


def lead_for_ever() -> Patch:
    """Who has led once believes in it for ever."""
    real = flow_leadership.Leadership.leads
    led: set[int] = set()

    def leads(self: flow_leadership.Leadership, now_s: float) -> bool:
        if real(self, now_s):
            led.add(id(self))
        return id(self) in led

    return mock.patch.object(flow_leadership.Leadership, "leads", leads)


def lead_without_lease() -> Patch:
    """Every replica believes that it leads."""
    return _always(flow_leadership.Leadership, "leads", True)


def ask_nobody_before_writing() -> Patch:
    """What was begun as a leader is written after the term too, and waits do not end with it."""
    real = perform.Performer.__init__

    def make(self: perform.Performer, *args: Any, **more: Any) -> None:
        real(self, *args, **{**more, "may_write": lambda: True})

    return mock.patch.object(perform.Performer, "__init__", make)


def take_awaited_locks() -> Patch:
    """An expired lock passes on although its owner's Allocate may still come."""
    place = (node_lock.Holder.AWAITED, node_lock.Age.EXPIRED)
    return _row(node_lock, "VERDICTS", {place: node_lock.Verdict.TAKE})


def wait_for_nobody() -> Patch:
    """The lock of a pod that is bound and not served is taken at once."""
    place = (node_lock.Holder.AWAITED, node_lock.Age.FRESH)
    return _row(node_lock, "VERDICTS", {place: node_lock.Verdict.TAKE})


def take_unbound_locks() -> Patch:
    """The lock of a pod whose Binding may be on its way is taken at once, without a fence."""
    unbound = node_lock.Holder.UNBOUND
    return _row(
        node_lock,
        "VERDICTS",
        {
            (unbound, node_lock.Age.FRESH): node_lock.Verdict.TAKE,
            (unbound, node_lock.Age.EXPIRED): node_lock.Verdict.TAKE,
        },
    )


def fence_nobody() -> Patch:
    """The lock of a living, unbound pod is taken without changing that pod first."""

    def fence(*_: Any) -> Any:
        yield from ()
        return True

    return mock.patch.object(locks, "fence", fence)


def believe_the_first_plugin() -> Patch:
    """``success`` ends a pod's turn although another vendor's plugin is not done."""

    def state(record: Any) -> bind_phase.State:
        if record is None or record.bind_phase is None:
            return bind_phase.State.NONE
        return bind_phase.State(record.bind_phase.value)

    served = node_lock._holder_of

    def holder_of(owner: Any, *, node: str) -> node_lock.Holder:
        found = served(owner, node=node)
        done = owner.bind_phase is not None and owner.bind_phase.value == "success"
        return node_lock.Holder.SERVED if owner.node == node and done else found

    return _both(
        mock.patch.object(bind_phase, "state", state),
        mock.patch.object(node_lock, "_holder_of", holder_of),
    )


def leave_locks() -> Patch:
    """Locks that nobody needs are left, and so are those of failed binds."""
    return _both(
        _always(locks, "forgotten", ()),
        _always(locks, "orphans", ()),
    )


def wake_nobody() -> Patch:
    """Pods that were refused are not woken."""
    return _always(wake, "is_due", False)


def drop_cards_without_kubelet() -> Patch:
    """Allocatable 0 alone takes the cards out of the ledger."""
    place = (
        handshake.State.REQUESTING,
        handshake.Age.FRESH,
        handshake.Supply.NONE,
        handshake.News.SAME,
    )
    return _row(handshake, "TABLE", {place: frozenset({handshake.Effect.DROP_DEVICES})})


def drop_cards_with_bad_text() -> Patch:
    """A register text that cannot be read, or is gone, takes the cards out of the ledger."""
    real = register._take_in_register

    def take_in(books_: Any, record: Any, vendor: Any, now: Any) -> Any:
        text = record.registers.get(vendor.spec.keyword)
        try:
            vendor_records.decode_register(record, vendor, text or "nonsense")
        except Exception:
            books_.ledger.drop_devices(record.name, vendor.spec.keyword)
        return real(books_, record, vendor, now)

    return mock.patch.object(register, "_take_in_register", take_in)


def believe_late_events() -> Patch:
    """An event that is older than what is known counts all the same."""
    return _always(resource_version, "is_earlier", False)


def count_twice() -> Patch:
    """What a pod holds is counted twice."""
    real = ledger_nodes.Nodes.charge

    def charge(self: Any, node: str, charges: Any, sign: int, **more: Any) -> None:
        for _ in range(2):
            real(self, node, charges, sign, **more)

    return mock.patch.object(ledger_nodes.Nodes, "charge", charge)


def ignore_lists() -> Patch:
    """Pods that a complete list no longer has stay in the ledger."""
    return _always(reconcile, "pods_listed", effects.NOTHING)


def refuse_without_reason() -> Patch:
    """A filter that fits nowhere gives no reasons."""
    real = flow_filter._refuse

    def refuse(*args: Any) -> flow_filter.FilterResult:
        found = real(*args)
        return flow_filter.FilterResult(fitting=(), events=found.events, again=found.again)

    return mock.patch.object(flow_filter, "_refuse", refuse)


def tell_nobody() -> Patch:
    """No event says why a pod is refused."""
    return _always(flow_filter.reasons, "filtering_failed", ())


def choose_once() -> Patch:
    """What was reserved before the wait for the lock is bound, whatever has happened since."""
    return _always(bind, "_still_holds", True)


def forget_doubts() -> Patch:
    """After a Binding without answer the cards are free and the lock is given back."""
    real = binding.create

    def create(*args: Any, **more: Any) -> Any:
        try:
            return (yield from real(*args, **more))
        except effects.Doubtful as doubt:
            return str(doubt)

    return mock.patch.object(binding, "create", create)


def put_no_lock_back() -> Patch:
    """A lock that is missing and needed is not put back, and nobody minds that it is missing."""
    return _both(
        _always(lock_needs, "put_back", ()),
        _always(lock_needs, "due", None),
    )


def jump_the_queue() -> Patch:
    """A pod takes the lock without looking who holds it."""

    def look(*_: Any) -> Any:
        yield from ()
        return True

    return mock.patch.object(take_locks, "_look", look)


# Of preemption.


def evict_before_the_nomination_stands() -> Patch:
    """Evictions begin although nothing is written on the pod."""

    def write(_books: books.Books, attempt: Any) -> Any:
        yield from ()
        attempt.written = True
        return ""

    return mock.patch.object(course, "write_nomination", write)


def hold_no_cards() -> Patch:
    """Nothing is held for the pod that others leave for."""
    return _both(
        _always(ledger.Ledger, "nominate", True),
        mock.patch.object(course, "standing", _go_while_it_lasts),
    )


def evict_whatever_has_happened() -> Patch:
    """Evictions go on when the pod fits elsewhere, is bound, gone or given up."""
    return _always(course, "standing", course.Standing.GO)


def evict_although_it_fits() -> Patch:
    """Evictions go on until the attempt ends, whether or not they still help."""
    return mock.patch.object(course, "standing", _go_while_it_lasts)


def evict_equals() -> Patch:
    """Pods of the same priority have to leave too."""
    real = leaving.cheapest

    def cheapest(books_: books.Books, view: Any, question: Any) -> Any:
        raised = dataclasses.replace(question, highest=question.highest + 1)
        return real(books_, view, raised)

    return mock.patch.object(leaving, "cheapest", cheapest)


def evict_everybody() -> Patch:
    """All pods of lower priority have to leave the node."""
    real = plan.plan

    def planned(books_: books.Books, wish: Any, **more: Any) -> Any:
        found = real(books_, wish, **more)
        if not isinstance(found, plan.Plan):
            return found
        everybody = tuple(
            plan.Victim(key=record.key, priority=record.priority)
            for record in one_node.pods_on(books_, found.node)
            if record.priority < more["priority"] and more["may_go"](record)
        )
        return dataclasses.replace(found, victims=everybody)

    return mock.patch.object(plan, "plan", planned)


def evict_by_name_alone() -> Patch:
    """Whoever bears the name of a victim by now is evicted."""

    async def evict(self: perform.Performer, effect: effects.EvictPod) -> None:
        path = paths.eviction(effect.pod.namespace, effect.pod.name)
        await self._client.create(path, {"kind": "Eviction"})

    return mock.patch.object(perform.Performer, "_evict", evict)


def give_held_cards_away() -> Patch:
    """Pods of lower priority get the cards that are held, at the filter and at bind."""
    real = ledger.Ledger.snapshot

    def snapshot(self: ledger.Ledger, **more: Any) -> Any:
        return real(self, **{**more, "for_priority": None})

    return mock.patch.object(ledger.Ledger, "snapshot", snapshot)


def let_never_evict() -> Patch:
    """``preemptionPolicy: Never`` and exempt PriorityClasses do not count."""
    real = candidates.may_evict

    def may_evict(books_: books.Books, record: Any) -> bool:
        return real(books_, dataclasses.replace(record, never_preempts=False))

    return _both(
        mock.patch.object(candidates, "may_evict", may_evict),
        _always(candidates, "exemption", ""),
    )


def take_nothing_over() -> Patch:
    """A new leader does not look for what the one before has begun."""
    return _always(take_over, "take_over", effects.NOTHING)


def _go_while_it_lasts(books_: books.Books, attempt: Any, *_: Any) -> course.Standing:
    is_under_way = books_.preemption.attempts.get(attempt.pod.uid) is attempt
    return course.Standing.GO if is_under_way else course.Standing.STOP


MUTANTS: Final[Mapping[str, Callable[[], Patch]]] = {
    mutant.__name__: mutant
    for mutant in (
        swallow_node_conflicts,
        swallow_binding_conflicts,
        take_locks_unconditionally,
        bind_in_two_steps,
        take_no_answer_for_no,
        forget_pods_that_are_deleting,
        forget_pods_that_failed,
        keep_reservations,
        lead_for_ever,
        lead_without_lease,
        ask_nobody_before_writing,
        take_awaited_locks,
        wait_for_nobody,
        take_unbound_locks,
        fence_nobody,
        believe_the_first_plugin,
        leave_locks,
        wake_nobody,
        drop_cards_without_kubelet,
        drop_cards_with_bad_text,
        believe_late_events,
        count_twice,
        ignore_lists,
        refuse_without_reason,
        tell_nobody,
        choose_once,
        forget_doubts,
        put_no_lock_back,
        jump_the_queue,
        evict_before_the_nomination_stands,
        hold_no_cards,
        evict_whatever_has_happened,
        evict_although_it_fits,
        evict_equals,
        evict_everybody,
        evict_by_name_alone,
        give_held_cards_away,
        let_never_evict,
        take_nothing_over,
    )
}


def _row(module: Any, table: str, changed: Mapping[Any, Any]) -> Patch:
    """Change some rows of a transition table."""
    return mock.patch.object(module, table, {**getattr(module, table), **changed})


def _always(owner: Any, name: str, value: object) -> Patch:
    """Have a function do nothing and return always the same."""

    def answer(*_: Any, **__: Any) -> object:
        return value

    return mock.patch.object(owner, name, answer)


@contextlib.contextmanager
def _both(*patches: Patch) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield
