"""Who holds what: the only state that placement is decided on."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from vgpu_operator.ledger import (
    charges,
    charging,
    claims,
    freed,
    nodes,
    nominations,
    pods,
    quotas,
    residents,
    sightings,
    snapshot,
    stakes,
    tenants,
)
from vgpu_operator.model import allocation, device, errors, quota, records, request, settings
from vgpu_operator.wire import resource_version

_Record: TypeAlias = records.PodRecord
_Snapshot: TypeAlias = snapshot.Snapshot
_Nomination: TypeAlias = nominations.Nomination


class Ledger:
    """Capacity = what nodes registered - what pods hold.

    ::

                    assume                observe: bound, promised here
         absent ------------> assumed --------------------------------> confirmed
           ^  ^                  |                                          |
           |  |     unassume, observe: bound elsewhere or without promise   |
           |  +------------------+                                          |
           |  observe: bound, promised here (somebody else bound it) ------>+
           |                                                                |
           |                 observe: ended (holds nothing, record stays)   |
           |                                                                |
         gone <-------------------------- forget ---------------------------+

    Events may come twice, late or out of order: one that is older than what
    is held is ignored, and nothing revives a pod that is gone. One owner, the
    event loop; no locks.

    Args:
        vendors: keywords of the vendors that are served.
        trust: how far annotations are believed.
        rules: how a vendor's shares are charged, by keyword; the common way
            where missing.
    """

    def __init__(
        self,
        *,
        vendors: Sequence[str],
        trust: settings.Trust,
        rules: charges.Rules | None = None,
    ) -> None:
        self._nodes = nodes.Nodes(tuple(vendors))
        self._charging = charging.Charging(self._nodes, vendors=vendors, trust=trust, rules=rules)
        self._pods = pods.Pods()
        self._residents = residents.Residents()
        self._stakes = stakes.Stakes(self._nodes)
        self._claims = claims.Claims(self._nodes, self._step)
        self._nominations = nominations.Nominations(self._kept_changed)
        self._freed = freed.FreedLog()
        self._quotas = quotas.Account()
        self._seen = sightings.NodeLog()
        self._unbound = sightings.Unbound()
        self._finder = snapshot.RowFinder()
        self._generation = 0
        self._snapshot: _Snapshot | None = None
        self._snapshot_taken_at: object = None

    # Nodes

    def set_devices(self, node: str, vendor: str, devices: Sequence[device.Device]) -> None:
        """Replace the vendor's cards of a node; pods that hold them charge them again.

        A list that only changes its order is no news.
        """
        change = self._nodes.set_devices(node, vendor, devices)
        if not change.happened:
            return
        for held in self._reckon(node):
            cards = held.charges.get(vendor, {})
            self._nodes.charge_vendor(node, vendor, cards, 1, claimed=False)
        self._claims.charge_again(node, vendor)
        self._seen.note(node)
        self._step(node, change.freed)

    def drop_devices(self, node: str, vendor: str) -> None:
        """Take all the vendor's cards off a node; what pods hold there is kept by pod."""
        if self._nodes.devices(node, vendor):
            self.set_devices(node, vendor, ())

    def set_allocatable(self, node: str, vendor: str, count: int | None) -> None:
        """Note what kubelet offers; 0 or None: the node takes no new pod of the vendor."""
        self._took(node, self._nodes.set_allocatable(node, vendor, count))

    def set_cordoned(self, node: str, ids: frozenset[str]) -> None:
        """Replace the list of the node's cards that take no new pod."""
        self._took(node, self._nodes.set_cordoned(node, ids))

    def set_notes(self, node: str, notes: Mapping[str, str]) -> None:
        """Replace the node's annotations and labels that vendors' rules read."""
        self._took(node, self._nodes.set_notes(node, notes))

    def forget_node(self, node: str) -> None:
        """Drop all bookkeeping of that name.

        What pods hold there is kept by pod and charged again if a node of that
        name registers those cards. Nominations on it end.
        """
        self._took(node, self._nodes.forget(node))
        self._nominations.forget_node(node)
        self._freed.drop(node)
        self._reckon(node)

    def devices(self, node: str, vendor: str) -> tuple[device.Device, ...]:
        """Return the vendor's registered cards of a node."""
        return self._nodes.devices(node, vendor)

    def blocked(self, node: str, vendor: str) -> bool:
        """Whether some pod there holds something unreadable of that vendor."""
        return self._nodes.is_blocked(node, vendor)

    @property
    def node_names(self) -> tuple[str, ...]:
        """The known nodes, sorted."""
        return tuple(sorted(self._nodes.rows))

    # Pods

    def observe(self, record: _Record) -> bool:
        """Take in a pod as the API shows it; return whether anything changed."""
        uid = record.key.uid
        if self._pods.is_gone(uid):
            return False
        pod = self._pods.get(uid)
        if pod is None:
            pod = self._pods.add(record.key)
        elif pod.record is not None and (
            pod.record == record
            or resource_version.is_earlier(record.resource_version, pod.record.resource_version)
        ):
            return False
        pod.record = record
        if record.node or record.ended:
            pod.assumption = None
        self._unbound.note(record)
        self._settle(uid, pod)
        if record.node or record.ended:
            self._claims.drop(uid, instead=pod.holding)
        if record.node or record.ended or record.deleting:
            self._nominations.end(uid, instead=pod.holding)
        return True

    def assume(
        self,
        wish: request.PodRequest,
        chosen: allocation.Allocation,
        *,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Reserve cards for a pod whose binding is under way.

        Replaces an earlier assumption of that pod and ends its claim. What is kept for it
        counts no more, until the assumption is taken back.

        Args:
            wish: what the pod asks for.
            chosen: what it gets.
            notes: annotations that the binding writes and vendors' rules read
                (MIG placements, say), so that others can see them before the
                API shows them.

        Raises:
            LedgerError: the pod is gone, or is bound already.
        """
        uid = wish.pod.uid
        if self._pods.is_gone(uid):
            raise errors.LedgerError(f"pod {wish.pod} ({uid}) is gone and cannot be assumed")
        pod = self._pods.get(uid) or self._pods.add(wish.pod)
        if pod.record is not None and (pod.record.node or pod.record.ended):
            raise errors.LedgerError(
                f"pod {wish.pod} is bound to {pod.record.node!r} (phase {pod.record.phase!r}) "
                "and cannot be assumed"
            )
        pod.assumption = self._charging.of_choice(wish, chosen)
        pod.assumed_notes = {**wish.notes, **(notes or {})}
        self._settle(uid, pod)
        self._claims.drop(uid, instead=pod.assumption)
        self._nominations.set_aside(uid, instead=pod.assumption)

    def unassume(self, uid: str) -> None:
        """Take an assumption back; nothing happens when there is none.

        What was kept for the pod is kept again in the same step: nobody comes in between.
        """
        pod = self._pods.get(uid)
        if pod is None or pod.assumption is None:
            return
        pod.assumption = None
        self._nominations.resume(uid)
        self._settle(uid, pod)
        if pod.record is None:
            self._pods.remove(pod)

    def forget(self, uid: str) -> None:
        """The pod object is gone; no later event of that UID counts."""
        self._pods.bury(uid)
        self._claims.drop(uid)
        self._nominations.end(uid)
        pod = self._pods.get(uid)
        if pod is None:
            return
        pod.record = pod.assumption = None
        self._unbound.drop(uid)
        self._settle(uid, pod)
        self._pods.remove(pod)

    def gone(self, uid: str) -> bool:
        """Whether the pod object of that UID is known to be gone."""
        return self._pods.is_gone(uid)

    def record(self, uid: str) -> _Record | None:
        """Return the pod as last observed."""
        pod = self._pods.get(uid)
        return pod.record if pod is not None else None

    def record_of(self, namespace: str, name: str) -> _Record | None:
        """Return the pod of that name; the one seen first last when several UIDs had it."""
        seen = (pod.record for pod in self._pods.named(namespace, name))
        return next((record for record in seen if record is not None), None)

    def records(self) -> tuple[_Record, ...]:
        """Return all pods as last observed."""
        return tuple(pod.record for pod in self._pods if pod.record is not None)

    def holding(self, uid: str) -> charges.Holding | None:
        """Return what a pod is charged now, assumed or confirmed."""
        pod = self._pods.get(uid)
        return pod.holding if pod is not None else None

    def assumed(self, uid: str) -> bool:
        """Whether the pod's binding is under way."""
        pod = self._pods.get(uid)
        return pod is not None and pod.assumption is not None

    def assumed_on(self, uid: str, node: str) -> bool:
        """Whether the pod's binding to that node is under way."""
        pod = self._pods.get(uid)
        return pod is not None and pod.assumption is not None and pod.assumption.node == node

    def surplus(self, uid: str) -> tuple[charges.Surplus, ...]:
        """Return what the pod's annotations promise beyond what it asks for."""
        held = self.holding(uid)
        return held.surplus if held is not None else ()

    def holders(self, node: str) -> tuple[residents.Holder, ...]:
        """Return every share on a node, by pod, vendor and container."""
        return self._residents.holders(node)

    @property
    def stakes(self) -> stakes.Stakes:
        """What each pod holds of each card, to be read only, valid until the next change."""
        return self._stakes

    def usage(self, node: str, vendor: str) -> tuple[nodes.CardUsage, ...]:
        """Return each of the vendor's cards on a node with what pods hold of it."""
        return self._nodes.usage(node, vendor)

    def would_hold(self, record: _Record) -> charges.Holding | None:
        """Return what the ledger would charge for that record."""
        return self._charging.of_record(record)

    # What people see

    @property
    def revision(self) -> int:
        """Grows with every change of a node, its cards or who holds them."""
        return self._seen.revision

    def seen_since(self, revision: int) -> tuple[str, ...] | None:
        """Return the nodes that changed after that revision; None when nobody knows any more."""
        return self._seen.since(revision)

    def sighted(self, node: str) -> None:
        """Note that people see something else of a node, though the ledger holds the same."""
        self._seen.note(node)

    @property
    def unbound(self) -> Collection[str]:
        """UIDs of the pods that ask for cards and have no node, first seen first."""
        return self._unbound.uids

    # Quotas

    def set_limits(self, namespace: str, limits: quota.Limits) -> None:
        """Replace what a namespace may hold; earlier answers may be wrong then."""
        self._generation += self._quotas.set_limits(namespace, limits, self._generation + 1)

    def quota_standing(self, namespace: str, *, without: str = "") -> quota.Standing:
        """Return the namespace's limits and what its pods hold, assumed ones included.

        Args:
            namespace: which.
            without: leave out the pod of that UID: the one that is asking.
        """
        held = self.holding(without)
        if held is None or self._pods[without].key.namespace != namespace:
            return self._quotas.standing(namespace)
        return self._quotas.standing(namespace, without=held.against_quota)

    @property
    def quota_namespaces(self) -> tuple[str, ...]:
        """The namespaces that hold anything or are limited, sorted."""
        return self._quotas.namespaces

    def forget_freed_quotas(self, *, waiting: Collection[str]) -> None:
        """Forget what became available in namespaces without limits where nobody waits.

        Whoever is refused there later is refused for another reason.

        Args:
            waiting: the namespaces of pods that were refused.
        """
        self._quotas.forget_freed(waiting=waiting)

    def quota_freed_since(self, generation: int) -> frozenset[str]:
        """Return the namespaces that may take more of what is or was limited than at that time."""
        return self._quotas.freed_since(generation)

    # Claims

    def claim(
        self, wish: request.PodRequest, chosen: allocation.Allocation, until: datetime
    ) -> None:
        """Let other filters count what a pod will probably get.

        Replaces the pod's earlier claim. A pod that is gone, bound or assumed
        needs none.
        """
        uid = wish.pod.uid
        pod = self._pods.get(uid)
        if self._pods.is_gone(uid) or (pod is not None and pod.holding is not None):
            return
        expected = self._charging.of_choice(wish, chosen)
        self._claims.put(claims.Claim(wish=wish, holding=expected, until=until))

    def drop_claim(self, uid: str) -> None:
        """End a pod's claim; nothing happens when there is none."""
        self._claims.drop(uid)

    def has_claim(self, uid: str) -> bool:
        """Whether a filter has claimed cards for the pod."""
        return self._claims.get(uid) is not None

    def claimed(self, *, besides: str) -> Iterator[tuple[str, request.PodRequest]]:
        """Yield where claims are and who has them, that of one pod left out."""
        for claim in self._claims.others(besides=besides):
            yield claim.holding.node, claim.wish

    def expire_claims(self, now: datetime) -> None:
        """End every claim whose time is over."""
        self._claims.expire(now)

    # Nominations

    def nominate(
        self,
        wish: request.PodRequest,
        priority: int,
        chosen: allocation.Allocation,
        until: datetime,
    ) -> bool:
        """Keep cards for a pod while others leave them; return whether they are kept.

        Pods of its priority or a lower one do not get them, at bind neither; who holds
        them now is charged until it has left. Replaces the pod's earlier nomination. A pod
        that is gone, bound, ended, deleted or assumed needs none. It ends with the pod and
        its node, when the pod is bound, and by the two calls below; while the pod is assumed,
        it counts for nothing.

        Args:
            wish: what the pod asks for.
            priority: its priority.
            chosen: what it would get.
            until: when it ends by itself, once ``expire_nominations`` is called.
        """
        uid = wish.pod.uid
        pod = self._pods.get(uid)
        if self._pods.is_gone(uid) or (pod is not None and pod.needs_nothing):
            return False
        holding = self._charging.of_choice(wish, chosen)
        self._nominations.put(
            _Nomination(wish=wish, priority=priority, holding=holding, until=until)
        )
        return True

    def end_nomination(self, uid: str) -> _Nomination | None:
        """Keep nothing more for a pod; return what was kept, None when nothing was."""
        return self._nominations.end(uid)

    def expire_nominations(self, now: datetime) -> tuple[_Nomination, ...]:
        """End every nomination whose time is over, and return those."""
        return self._nominations.expire(now)

    def nomination(self, uid: str) -> _Nomination | None:
        """Return what is kept for a pod; None when nothing is."""
        return self._nominations.get(uid)

    def nominations(self, node: str | None = None) -> tuple[_Nomination, ...]:
        """Return everything that is kept, or what is kept on one node, oldest first."""
        return self._nominations.all() if node is None else tuple(self._nominations.on(node))

    def nominations_ahead(self, priority: int, uid: str) -> tuple[_Nomination, ...]:
        """Return the nominations that a pod has to wait for.

        Those of higher priority, and those of its own that came before its nomination, if it
        has one.
        """
        return self._nominations.ahead_of(priority, uid)

    def kept_from(self, priority: int) -> int:
        """Return how many nominations count against a pod of that priority.

        Pods of which as many count are answered alike: it is the same ones at one generation.
        """
        return self._nominations.n_against(priority)

    # Answers

    @property
    def generation(self) -> int:
        """Grows with every change that could alter an answer."""
        return self._generation

    @property
    def newest_freed(self) -> int:
        """The last generation in which something became available, on a node or in a quota."""
        return max(self._freed.newest, self._quotas.newest_freed)

    def freed_since(self, generation: int) -> frozenset[str]:
        """Return the nodes where something became available after that generation."""
        return self._freed.since(generation)

    def snapshot(
        self,
        *,
        with_claims: bool = True,
        without_claim_of: str | None = None,
        for_priority: int | None = None,
        kept_on: str | None = None,
    ) -> snapshot.Snapshot:
        """Return read-only views, valid until the next change.

        Args:
            with_claims: count tentative claims as used.
            without_claim_of: leave out the claim and the nomination of that pod.
            for_priority: count as used what is kept from a pod of that priority: the
                nominations of the same and of higher ones; None counts none.
            kept_on: count what is kept on that node only, for who looks at no other one: a
                view with hundreds of nominations takes milliseconds.
        """
        own = self._claims.get(without_claim_of) if with_claims and without_claim_of else None
        kept: Sequence[_Nomination] = ()
        if for_priority is not None:
            kept = self._nominations.against(for_priority, besides=without_claim_of)
        if kept and kept_on is not None:
            kept = tuple(one for one in kept if one.node == kept_on)
            return self._take_snapshot(with_claims=with_claims, own=own, kept=kept)
        whose = tuple(one.pod.uid for one in kept)
        taken_at = self._generation, self._nodes.rows_epoch, with_claims, own, whose
        if self._snapshot is None or self._snapshot_taken_at != taken_at:
            self._snapshot = self._take_snapshot(with_claims=with_claims, own=own, kept=kept)
            self._snapshot_taken_at = taken_at
        return self._snapshot

    # Inside

    def _take_snapshot(
        self,
        *,
        with_claims: bool,
        own: claims.Claim | None,
        kept: Sequence[_Nomination],
    ) -> _Snapshot:
        left_out = [own] if own is not None else []
        if with_claims:
            # A pod counts once: what is kept for it goes before what it is expected to get.
            found = ((one.node, self._claims.get(one.pod.uid)) for one in kept)
            left_out += [
                claim for node, claim in found if claim is not None and claim.holding.node == node
            ]
        unseen = {claim.wish.pod.uid for claim in left_out}
        noted = self._residents.noted
        if kept:
            to_read = (one for one in kept if tenants.must_be_read(one.wish.notes, one.holding))
            noted = {*noted, *(one.node for one in to_read)}

        def find_tenants(node: str, vendor: str) -> tenants.Cards:
            held = self._residents.tenants(node).get(vendor, tenants.NOBODY)
            expected: list[tenants.Occupant] = [
                (one.pod, one.wish.notes, one.holding) for one in kept if one.node == node
            ]
            if with_claims:
                expected += [
                    (claim.wish.pod, claim.wish.notes, claim.holding)
                    for claim in self._claims.on(node)
                    if claim.wish.pod.uid not in unseen
                ]
            if not expected:
                return held
            return tenants.joined(held, tenants.of(expected).get(vendor, tenants.NOBODY))

        return snapshot.Snapshot(
            generation=self._generation,
            book=self._nodes,
            finder=self._finder,
            with_claims=with_claims,
            find_tenants=find_tenants,
            noted=noted,
            excluded=self._nodes.places_of(claim.holding for claim in left_out),
            added=self._nodes.places_of(one.holding for one in kept),
        )

    def _reckon(self, node: str) -> list[charges.Holding]:
        """Work out anew what the pods on a node hold, and return it.

        What a percentage may cost depends on the memory of the card, which
        has just come, gone or changed.
        """
        found = []
        self._residents.changed(node)
        for pod in self._residents.on(node):
            before, pod.holding = pod.holding, self._charging.of_pod(pod)
            self._count(pod, before)
            self._stakes.put(pod)
            if pod.holding is not None:
                found.append(pod.holding)
        return found

    def _count(self, pod: pods.Pod, before: charges.Holding | None) -> None:
        """Bring the namespace's account in line with what the pod holds now."""
        self._quotas.move(
            pod.key.namespace,
            before.against_quota if before is not None else {},
            pod.holding.against_quota if pod.holding is not None else {},
            self._generation + 1,
        )

    def _settle(self, uid: str, pod: pods.Pod) -> None:
        """Bring the columns in line with what the pod holds now, and whose texts are read."""
        before, after = pod.holding, self._charging.of_pod(pod)
        pod.holding = after
        for holding in (before, after):
            if holding is not None:
                self._seen.note(holding.node)
        notes_before, pod.settled_notes = pod.settled_notes, pod.notes
        if before == after:
            self._residents.note(pod)
            self._stakes.note(pod)
            if after is not None and pod.notes != notes_before:
                # What a vendor's rules read there may say now that something is free; what
                # we are about to write never does.
                self._residents.changed(after.node)
                self._step(after.node, pod.assumption is None)
            return
        self._count(pod, before)
        self._residents.settle(pod, before)
        self._stakes.put(pod)
        if before is not None:
            self._nodes.charge(before.node, before.charges, -1, claimed=False)
            for vendor in before.blocks:
                self._nodes.set_blocked(before.node, vendor, uid, blocked=False)
        if after is not None:
            self._nodes.charge(after.node, after.charges, 1, claimed=False)
            for vendor in after.blocks:
                self._nodes.set_blocked(after.node, vendor, uid, blocked=True)
        if before is not None and (after is None or not after.covers(before)):
            self._step(before.node, True)
        else:
            self._generation += 1

    def _took(self, node: str, change: nodes.Change) -> None:
        if change.happened:
            self._seen.note(node)
            self._step(node, change.freed)

    def _kept_changed(self, node: str, freed: bool, /) -> None:
        self._seen.note(node)
        self._step(node, freed)

    def _step(self, node: str, freed: bool, /) -> None:
        self._generation += 1
        if freed and node in self._nodes.rows:
            self._freed.note(node, self._generation)
