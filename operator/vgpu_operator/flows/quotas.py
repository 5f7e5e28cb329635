"""Namespace quotas: ResourceQuotas in and out, how a namespace stands, what a pod will cost.

Admission refuses a pod that cannot fit beside what the namespace holds now, as
this replica sees it; the leader's reservation is what holds a quota.
"""

from collections.abc import Collection

from vgpu_operator.flows.books import Books
from vgpu_operator.model import quota, records, request
from vgpu_operator.vendors import base
from vgpu_operator.wire import resource_version

REMEMBERED = 10_000
"""UIDs of gone ResourceQuotas that are kept: far more than events of one can be late."""


def quota_seen(books: Books, record: records.QuotaRecord) -> tuple[str, ...]:
    """Take in a ResourceQuota; return what is wrong with it and was not before.

    Seeing the same one twice, or an older one late, changes nothing.
    """
    of_namespace = books.quotas.get(record.namespace, {})
    known = of_namespace.get(record.name)
    if record.uid in books.gone_quotas or (
        known is not None
        and resource_version.is_earlier(record.resource_version, known.resource_version)
    ):
        return ()
    books.quotas.setdefault(record.namespace, {})[record.name] = record
    _add(books, record, known)
    before = known.ignored if known is not None else ()
    return tuple(sentence for sentence in record.ignored if sentence not in before)


def quota_gone(books: Books, namespace: str, name: str, *, uid: str = "") -> None:
    """Forget a ResourceQuota: what it limited is limited by the others only.

    Args:
        books: what is known.
        namespace: where it was.
        name: its name.
        uid: which one of that name; a late deletion of an earlier one leaves
            the present one alone. Empty means whichever is known.
    """
    known = books.quotas.get(namespace, {}).get(name)
    gone = uid or (known.uid if known is not None else "")
    if gone:
        books.gone_quotas[gone] = None
    while len(books.gone_quotas) > REMEMBERED:
        del books.gone_quotas[next(iter(books.gone_quotas))]
    if known is None or (uid and known.uid != uid):
        return
    del books.quotas[namespace][name]
    if not books.quotas[namespace]:
        del books.quotas[namespace]
    if _binds(books, known):
        _reckon(books, namespace)


def quotas_listed(books: Books, *, uids: Collection[str], version: str) -> None:
    """Forget the ResourceQuotas that one complete list no longer has.

    A deletion that no watch delivered cannot limit a namespace for ever. What
    is known from a later moment than the list stays.
    """
    missing = [
        record
        for of_namespace in books.quotas.values()
        for record in of_namespace.values()
        if record.uid not in uids
        and not resource_version.is_earlier(version, record.resource_version)
    ]
    for record in missing:
        quota_gone(books, record.namespace, record.name, uid=record.uid)


def tidy(books: Books) -> None:
    """Forget what became available in namespaces that have no quota and no refused pod.

    Namespaces and their quotas come and go; only a pod that was refused earlier
    has to be woken for what its namespace may take more of now.
    """
    waiting = {refusal.request.pod.namespace for refusal in books.refused.values()}
    books.ledger.forget_freed_quotas(waiting=waiting)


def allowances(books: Books, pod: request.PodKey) -> quota.Allowances:
    """Return what a pod's namespace may still take, the pod itself left out."""
    return books.ledger.quota_standing(pod.namespace, without=pod.uid).allowances


def cost(wish: request.PodRequest, vendor: base.Vendor) -> quota.Amount:
    """Return what a pod will count of one vendor, at least, before its cards are known.

    App containers and side-cars are added up; an ordinary init container runs
    beside the side-cars before it only.
    """
    lasting = peak = quota.NOTHING
    for container in wish.containers:
        asked = container.of(vendor.spec.keyword)
        if asked is None:
            continue
        own = vendor.least_cost(asked, wish.notes)
        if container.kind is request.ContainerKind.INIT:
            peak = peak.larger(own + lasting)
        else:
            lasting += own
    return peak.larger(lasting)


def refusal(wish: request.PodRequest, standing: quota.Standing, vendor: base.Vendor) -> str:
    """Return why the namespace's quota of one vendor cannot take the pod; empty when it can."""
    limit = standing.limits.get(vendor.spec.keyword, quota.UNLIMITED)
    used = standing.used.get(vendor.spec.keyword, quota.NOTHING)
    wanted = cost(wish, vendor)
    spec = vendor.spec
    for name, most, held, asked, unit in (
        (
            spec.memory_resource,
            limit.memory_mib,
            used.memory_mib,
            wanted.memory_mib,
            spec.memory_unit_mib,
        ),
        (spec.cores_resource, limit.cores, used.cores, wanted.cores, 1),
    ):
        if most is None or asked <= 0 or held + asked <= most:
            continue
        left = max(0, most - held)
        return (
            f"exceeding resource quota: the pod takes at least {_in_units(asked, unit)} of {name}, "
            f"and {_in_units(left, unit)} of the namespace's {_in_units(most, unit)} are left (its "
            f"pods hold {_in_units(held, unit)}); ask for less, end other pods, or raise "
            f"limits.{name} in the namespace's ResourceQuota"
        )
    return ""


def _in_units(amount: int, unit: int) -> str:
    """Return an amount in the unit of its resource, rounded up to hundredths.

    >>> _in_units(512, 256), _in_units(300, 256), _in_units(1, 256), _in_units(3000, 1)
    ('2', '1.18', '0.01', '3000')
    """
    whole, rest = divmod(amount, unit)
    return f"{-(-amount * 100 // unit) / 100:.2f}" if rest else str(whole)


def _add(books: Books, record: records.QuotaRecord, known: records.QuotaRecord | None) -> None:
    """Hold to one more ResourceQuota, or to what it says now."""
    if known is not None:
        if known.limits == record.limits:
            return
        if _binds(books, known):
            _reckon(books, record.namespace)
            return
    limits = books.ledger.quota_standing(record.namespace).limits
    books.ledger.set_limits(record.namespace, quota.tightest((limits, record.limits)))


def _binds(books: Books, record: records.QuotaRecord) -> bool:
    """Whether what the namespace may hold may depend on this ResourceQuota.

    Where every limit of it is looser than the namespace's, others are the tighter ones.
    """
    limits = books.ledger.quota_standing(record.namespace).limits
    return any(
        (own.memory_mib is not None and own.memory_mib == limits[vendor].memory_mib)
        or (own.cores is not None and own.cores == limits[vendor].cores)
        for vendor, own in record.limits.items()
    )


def _reckon(books: Books, namespace: str) -> None:
    """Have the ledger hold to what all ResourceQuotas of the namespace allow."""
    there = books.quotas.get(namespace, {}).values()
    books.ledger.set_limits(namespace, quota.tightest(record.limits for record in there))
