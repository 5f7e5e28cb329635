"""Every deliberate difference from HAMi v2.10.0's recorded answers, as data.

A *rule* says by a predicate on the recorded case and our answer which
differing fields it explains. A *row* names the recorded cases themselves.
``docs/compatibility.md`` shows both, in the sections of ``compatibility_groups``;
``PYTHONPATH=operator:tests python -m support.compatibility`` writes its tables.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from support import compatibility_rules as rules
from support.compare_answers import Path

Explains: TypeAlias = Callable[[rules.Seen], Iterable[Path]]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One line of the document.

    Attributes:
        name: how tests and people call it.
        what: what we do otherwise.
        why: a reason that a user of HAMi accepts.
        switch: the setting that brings HAMi's way back; empty when there is none.
        explains: which differing fields of a case it explains.
        cases: only these cases; empty is every case.
        fields: only fields that begin so (``filter``, ``annotations``); empty is all.
    """

    name: str
    what: str
    why: str
    switch: str = ""
    explains: Explains = rules.everything
    cases: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    def explained(self, seen: rules.Seen) -> frozenset[Path]:
        """Return the differing fields that this line explains."""
        if self.cases and seen.name not in self.cases:
            return frozenset()
        found = frozenset(self.explains(seen)) & seen.wrong.keys()
        if self.fields:
            found = frozenset(path for path in found if path[0] in self.fields)
        return found


RULES: tuple[Difference, ...] = (
    Difference(
        name="one-segment-per-container",
        what="A devices annotation has one segment for every container, init containers first, "
        "empty where the container has no device.",
        why="HAMi leaves some out; its plugin then serves the wrong container.",
        explains=rules.segments,
    ),
    Difference(
        name="only-vendors-asked-for",
        what="Nothing is written for a vendor that the pod asks nothing of.",
        why="HAMi writes empty texts of other vendors whose cards share the node.",
        explains=rules.texts_of_other_vendors,
    ),
    Difference(
        name="nonsense-is-refused",
        what="A fractional, negative, or too large amount is refused at admission (422) with a "
        "sentence that names container, resource and value.",
        why="HAMi lets such a pod through without a device, or with the low 32 bits of the number.",
        explains=rules.nonsense,
    ),
    Difference(
        name="refusals-in-a-sentence",
        what="A refusal's text says what to change; a bad value is answered with 422, not 500.",
        why="A bad value is the author's fault, not the server's; the author has to know what "
        "to write.",
        explains=rules.refusal_words,
    ),
    Difference(
        name="other-schedulers-without-a-remark",
        what="A pod of another scheduler is allowed without a remark.",
        why="Nothing is wrong with it.",
        explains=rules.remark,
    ),
    Difference(
        name="a-count-of-0-asks-for-nothing",
        what="A container whose count is 0 asks for no card; a pod of such containers is left "
        "as it is.",
        why="HAMi takes the pod over and then places it anywhere.",
        explains=rules.count_of_zero,
    ),
    Difference(
        name="requests-count-as-limits",
        what="An amount that stands in requests only is copied to limits.",
        why="The API server wants both to be equal for such resources, and a default beside the "
        "author's number would contradict it.",
        explains=rules.limits_from_requests,
    ),
    Difference(
        name="amounts-in-requests-count",
        what="An amount that stands in requests only counts like a limit, whatever the vendor.",
        why="HAMi reads some of them and passes over others.",
        explains=rules.only_in_requests,
    ),
    Difference(
        name="requests-are-left-to-the-api-server",
        what="Admission sets limits; requests of the same name are left to the API server, "
        "which copies them from limits.",
        why="The stored pod is the same, and a patch that is not needed can conflict with none.",
        explains=rules.requests_left_alone,
    ),
    Difference(
        name="cores-end-at-100",
        what="More than 100 cores are counted as 100 from the start.",
        why="HAMi lowers the number later; the cards are the same.",
        explains=rules.cores_above_whole,
    ),
    Difference(
        name="stamps-only-for-registered-vendors",
        what="A handshake is stamped only for vendors that have registered on the node.",
        why="HAMi stamps every vendor on every node, CPU-only nodes too: writes without a reader.",
        explains=rules.stamps,
    ),
    Difference(
        name="cards-are-read-whatever-the-handshake-says",
        what="A scheduler that has just started reads the cards of a node whose handshake says "
        "Requesting.",
        why="HAMi waits for the plugin's next report; until then the node takes no pod.",
        explains=rules.read_at_start,
    ),
    Difference(
        name="expired-at-first-sight",
        what="An expired handshake on a node with nothing allocatable is removed by a scheduler "
        "that has just started, too.",
        why="Otherwise a dead node keeps it for ever.",
        explains=rules.expired_at_first_sight,
    ),
    Difference(
        name="texts-count-when-they-change",
        what="A changed register text counts as soon as it is seen.",
        why="HAMi waits for the plugin's next report, and promises cards that are not there.",
        explains=rules.read_on_change,
    ),
    Difference(
        name="cards-leave-with-the-capacity",
        what="Cards that a node's capacity or its plugin's list no longer names are gone.",
        why="HAMi keeps them until it is restarted.",
        explains=rules.gone_with_the_capacity,
    ),
    Difference(
        name="a-bad-text-costs-only-itself",
        what="One bad entry of a register text is lost, the rest counts; both forms of the text "
        "are read for every vendor.",
        why="HAMi loses all cards of the node.",
        explains=rules.bad_text_costs_itself,
    ),
    Difference(
        name="nothing-allocatable-takes-no-pod",
        what="A node on which the kubelet offers none of a vendor's devices takes no new pod of "
        "that vendor; seen for the first time without a handshake, it has no cards.",
        why="The kubelet would refuse the pod; HAMi looks at the register text alone.",
        explains=rules.nothing_allocatable,
    ),
    Difference(
        name="bad-weights-are-a-reason",
        what="Scoring weights that cannot be read are the reason for which each node is refused.",
        why="The pod's author sees it in the pod's events; HAMi answers kube-scheduler with an "
        "error.",
        explains=rules.bad_weights,
    ),
    Difference(
        name="lock-words",
        what="A lock that cannot be read is one that is held: it ends with its expiry.",
        why="HAMi fails every bind on that node until somebody removes it; the words differ.",
        explains=rules.lock_words,
    ),
    Difference(
        name="own-lock-written-again",
        what="A lock that already names the pod is written again.",
        why="Only a conditioned write proves that it is this bind's.",
        explains=rules.own_lock,
    ),
    Difference(
        name="init-containers-take-the-lock",
        what="A pod whose devices are all in init containers takes the lock too.",
        why="Its plugin finds the pod by the lock; HAMi looks at app containers only.",
        explains=rules.lock_of_init_only,
    ),
    Difference(
        name="side-cars-live-as-long-as-the-pod",
        what="A native side-car (a restartable init container) is charged beside the app "
        "containers, not instead of them.",
        why="Both run at the same time; HAMi promises the card twice.",
        explains=rules.sidecars,
    ),
    Difference(
        name="equal-cards-by-index",
        what="Among cards that are equal otherwise the one with the higher index is taken.",
        why="HAMi takes the one later in the register text, whose order a real plugin draws by "
        "chance, and above 12 cards whatever Go's sort leaves there.",
        explains=rules.equal_cards,
    ),
    Difference(
        name="scores-in-double-precision",
        what="Node scores are worked out with 53 bits.",
        why="HAMi's 24 bits lose the second decimal of scores above 100,000.",
        explains=rules.double_precision,
    ),
    Difference(
        name="a-missing-vendor-is-unregistered",
        what="A node without any card of a vendor that the pod asks for is `node unregistered`.",
        why="HAMi says so only where no vendor is registered.",
        explains=rules.missing_vendor,
    ),
    Difference(
        name="neuron-cores-are-known-on-the-node",
        what="How many cores a Neuron device has is read from the node that is looked at.",
        why="HAMi keeps the number that it saw last on any node.",
        explains=rules.neuron_cores,
    ),
    Difference(
        name="slices-are-slots",
        what="A share of an Enflame card takes as many slots as it takes slices.",
        why="HAMi counts so when it chooses, and one a share when it counts again.",
        explains=rules.slices,
    ),
    Difference(
        name="nothing-stops-the-scheduler",
        what="An entry of a list that is null is a fault of its own.",
        why="HAMi stops with a nil dereference.",
        explains=rules.panics,
    ),
)

ROWS: tuple[Difference, ...] = (
    Difference(
        name="quotas-count-what-pods-hold",
        what="A namespace quota counts what a pod's cards are charged, in the unit that pods ask "
        "in: NeuronCores, GB of Enflame's partitions, 100 cores for a whole card of however many.",
        why="HAMi adds up bit masks, compares GB with MiB, and counts cores that no card has.",
        cases=(
            "awsneuron/quota/quota-core-used-mask",
            "enflame-drs/quota/quota-used",
            "iluvatar-bi-v100/quota/count-2-quota-cores",
            "iluvatar-mr-v100/quota/count-2-quota-cores",
            "iluvatar-mr-v50/quota/count-2-quota-cores",
            "nvidia/quota/cores-150-clamped",
        ),
        fields=("admission",),
    ),
    Difference(
        name="quotas-hold-on-the-card",
        what="A namespace quota is held for every vendor when the cards are chosen, a whole card "
        "by its memory and a MIG instance by its profile's.",
        why="HAMi does so for NVIDIA and Cambricon only, before the profile is known; other pods "
        "pass the limit.",
        cases=("iluvatar-bi-v150/quota/quota-bare-count", "nvidia/quota/mig-rounded-after-quota"),
    ),
    Difference(
        name="negative-promises",
        what="A promise of negative memory or cores is unreadable.",
        why="It would give a card more than it has.",
        cases=("codec/pod-decode/mem-negative",),
    ),
    Difference(
        name="semicolons-end-containers",
        what="A `;` always ends a container.",
        why="The form has no escapes.",
        cases=("codec/container-decode/semicolon-in-cores",),
    ),
    Difference(
        name="one-bad-segment",
        what="A bad segment of a register text costs only itself, a blank one is none, and the "
        "first character decides which form is read.",
        why="HAMi loses all cards of the node.",
        cases=("codec/node-colon-decode/newline", "codec/node-colon-decode/json"),
    ),
    Difference(
        name="cards-need-an-id",
        what="A card without an id is a fault.",
        why="It could be promised to nobody.",
        cases=("codec/node-json-decode/list-empty-object",),
    ),
    Difference(
        name="lock-with-an-unreadable-time",
        what="A lock with an unreadable time still names its owner; without one it can be taken "
        "over as soon as that owner is gone.",
        why="HAMi fails every bind on the node until somebody removes it.",
        cases=("codec/lock-parse/unix", "nvidia/bind/locked-bad-time"),
        fields=("error", "bind"),
    ),
    Difference(
        name="more-clock-forms",
        what="Handshake times with dots, or in ISO form, are read, so that such a stamp can "
        "expire.",
        why="HAMi cannot read what some plugins write, and keeps their dead cards for ever.",
        cases=(
            "codec/handshake/iso-alloc-none",
            "codec/handshake/dots-alloc-none",
            "codec/handshake/dots-alloc-0",
        ),
    ),
    Difference(
        name="no-stamp-on-a-dead-node",
        what="A handshake that clean-up removed stays away while nothing is allocatable and the "
        "register text is the same.",
        why="HAMi stamps and removes it in turns for ever.",
        cases=(
            "codec/handshake/deleted-alloc-0",
            "codec/handshake/empty-alloc-0",
            "codec/handshake/missing",
        ),
    ),
    Difference(
        name="a-list-of-commas-allows-no-card",
        what="A list of card ids that holds only commas allows no card.",
        why="It allows no card in HAMi either; only a card with an empty id would pass, and "
        "there is none.",
        cases=("codec/check-uuid/13",),
    ),
    Difference(
        name="reasons-apart",
        what="Counted reasons are told apart without the blank behind the comma.",
        why="HAMi takes the rest of the line for one word.",
        cases=("codec/parse-reason/04",),
    ),
    Difference(
        name="a-percentage-of-nothing",
        what="A percentage of a card that registers no memory is refused.",
        why="It would promise 0 MiB, which the plugin takes for no limit.",
        cases=("nvidia/fit/devmem-zero-pct", "cambricon-mlu/decode/no-mem"),
    ),
    Difference(
        name="requested-count-beside-limited-memory",
        what="A count that stands in requests only is the author's.",
        why="HAMi writes a count of 1 into limits, which contradicts it.",
        cases=("nvidia/request/count-request-mem-limit",),
    ),
    Difference(
        name="default-memory-shares",
        what="A bare count that gets `defaultMemory` shares the card.",
        why="HAMi gives it a part of the memory and all cores.",
        cases=("nvidia/config/default-memory",),
    ),
    Difference(
        name="terminating-pods-hold-their-cards",
        what="A pod that is being deleted holds its cards until it is gone.",
        why="Its containers still run.",
        cases=("nvidia/usage/terminating",),
    ),
    Difference(
        name="unreadable-promises-close-the-node",
        what="While a bound pod's promise cannot be read, its node takes no new pod of that "
        "vendor; an event says which pod.",
        why="HAMi counts such a pod as holding nothing and promises its cards again.",
        cases=("nvidia/usage/malformed-fields", "nvidia/usage/mem-over-int32"),
    ),
    Difference(
        name="unbound-pods-hold-nothing",
        what="A pod that is not bound holds nothing, whatever its annotations say.",
        why="Here node and promise appear in one step; a text on an unbound pod is left over or "
        "forged.",
        cases=("nvidia/usage/self-refilter",),
    ),
    Difference(
        name="dry-run-names-the-nodes",
        what="A filter call with Node objects names all of them for a pod that asks for no card.",
        why="HAMi answers with nothing, which the autoscaler reads as no.",
        cases=("nvidia/simulation/no-request",),
    ),
    Difference(
        name="dry-run-of-a-dead-node",
        what="A node that says that nothing is allocatable takes no pod in a dry run either.",
        why="The kubelet would refuse it.",
        cases=("nvidia/simulation/handshake-expired",),
    ),
    Difference(
        name="ids-are-unique",
        what="Of two cards of a node with one id the first counts.",
        why="A promise could not say which one it means.",
        cases=("nvidia/decode/duplicate-id",),
    ),
    Difference(
        name="an-empty-list-is-a-list",
        what="A register text `[]` removes the cards.",
        why="The plugin says so; HAMi keeps placing pods on them.",
        cases=("nvidia/transition/register-empty-list",),
    ),
    Difference(
        name="cordons-count-at-once",
        what="A changed cordon list counts as soon as it is seen.",
        why="HAMi waits for the next change of the register text.",
        cases=("nvidia/transition/cordon-added-later", "nvidia/transition/cordon-removed"),
    ),
    Difference(
        name="cards-are-hidden-from-containers-without-any",
        what="`overwriteEnv` hides cards from containers that ask for no card at all, once, and "
        "only in a pod that asks for some.",
        why="HAMi changes every pod, which its users have complained of (HAMi#1705), writes the "
        "variable once for each chip, and for Ascend also into the container that has the card.",
        cases=(
            "ascend-910a/admission/overwrite-env-two-chips",
            "ascend-910a/admission/overwrite-env-no-npu",
            "mixed/admission/overwrite-env-two-vendors",
        ),
        fields=("admission",),
    ),
    Difference(
        name="a-chip-is-not-its-namesake",
        what="Cards of the chip Ascend910B4-1 do not serve requests for Ascend910B4.",
        why="HAMi finds the shorter name in the longer one; the plugin of the one chip cannot "
        "serve the other.",
        cases=("ascend-910b4/fit/takes-910b4-1-cards", "mixed/mixed/ascend-910b4-substring"),
    ),
    Difference(
        name="pairs-count-against-all-cards",
        what="Reasons on cards that come in pairs (Ascend910C) are counted against all cards.",
        why="HAMi counts them against what is left of the pairs, which gives 7/2.",
        cases=(
            "ascend-910c/fit/pair-used135-want-4",
            "ascend-910c/fit/pair-used0246-want-2",
            "ascend-910c/fit/pair-used0123456-want-1",
        ),
        fields=("filter",),
    ),
    Difference(
        name="neuron-devices-with-four-cores",
        what="All four cores of a Neuron device are kept account of.",
        why="HAMi follows two of them.",
        cases=(
            "awsneuron/decode/four-core-count",
            "awsneuron/fit/single-four-core-used-3-want-core",
            "awsneuron/fit/single-four-core-want-4-cores",
        ),
    ),
    Difference(
        name="mlu-lock-for-init-containers-too",
        what="A pod whose MLU cards are all in init containers waits for the MLU lock.",
        why="Its plugin is called for them too, and serves one pod at a time; HAMi looks at app "
        "containers only.",
        cases=("cambricon-mlu/bind/lock-kept-by-init-only",),
        fields=("bind",),
    ),
    Difference(
        name="slices-that-others-hold",
        what="An Enflame card whose slices are all held has no slot left.",
        why="HAMi forgets slices when it counts again.",
        cases=("enflame-drs/fit/mem-full", "enflame-drs/fit/slots-rebuilt"),
    ),
    Difference(
        name="kunlun-wings-by-index",
        what="Which half of a Kunlun node a card belongs to goes by its index.",
        why="HAMi goes by the place in a list that it has just sorted by score. So it gives "
        "cards that are not linked (`random2/039-kunlun-vxpu`: 0, 2, 3 and 4), or breaks up a "
        "whole half where a broken one had room; no rule by index gives those answers and the "
        "other, right ones.",
        cases=(
            "kunlun-xpu/fit/used-5-want-2",
            "kunlun-xpu/fit/used-5-want-4",
            "kunlun-xpu/fit/used-67-want-1",
            "kunlun-xpu/fit/used-36-want-4",
            "kunlun-xpu/fit/used-04-want-4",
            "kunlun-xpu/fit/used-012567-want-2",
            "random2/039-kunlun-vxpu",
            "random2/063-kunlun-vxpu",
            "random2/103-kunlun-vxpu",
        ),
    ),
    Difference(
        name="kunlun-slice-in-requests",
        what="A slice that stands in requests only is rounded up like one in limits.",
        why="HAMi leaves it as it is.",
        cases=("kunlun-vxpu/request/slice-in-requests-only",),
        fields=("admission",),
    ),
    Difference(
        name="metax-memory-in-gib",
        what="A bare number of `metax-tech.com/vmemory` is GiB, whatever suffix the API server "
        "prints it with; less than 1 MiB is refused.",
        why="HAMi takes 1000, which the API server prints as 1k, for bytes, and gives a whole "
        "card for it.",
        cases=(
            "metax-sgpu/request/vmemory-1000",
            "metax-sgpu/request/vmemory-2000",
            "metax-sgpu/request/vmemory-1k",
            "metax-sgpu/request/vmemory-64k",
            "metax-sgpu/request/mem-2Ki",
        ),
    ),
    Difference(
        name="mig-cores-count",
        what="A MIG profile has to have as many cores as are asked for.",
        why="HAMi passes over the cores.",
        cases=("nvidia/fit/mig-cores-50",),
    ),
    Difference(
        name="mig-container-index",
        what="A MIG allocation names the container by its place in the pod.",
        why="HAMi counts only containers that it wrote a segment for.",
        cases=("nvidia/fit/mig-side-first",),
        fields=("annotations",),
    ),
    Difference(
        name="health-is-the-plugins-word",
        what="A card of which it cannot be known what MIG instances are free refuses pods with "
        "`CardNotHealth`, and stays healthy in the books.",
        why="Its plugin says that it is healthy.",
        cases=(
            "nvidia/fit/mig-used-bad-allocation",
            "nvidia/fit/mig-allocation-unknown-card",
            "nvidia/fit/mig-allocation-on-hami-core-card",
        ),
        fields=("usage_before",),
    ),
    Difference(
        name="old-mig-ids-are-charged",
        what="A promise whose id names a MIG instance, as HAMi wrote it before v2.10 "
        "(`GPU-a0[0-1]`), is charged to its card, which takes nobody else while it cannot be "
        "known where the instance lies.",
        why="HAMi passes over such a promise and gives the same memory away again.",
        cases=("nvidia/fit/mig-legacy-uuid",),
    ),
    Difference(
        name="topology-on-every-numa-node",
        what="`topology-aware` with `numa-bind` takes the best set of any NUMA node that has "
        "enough cards.",
        why="HAMi looks at the one that it walked last.",
        cases=("nvidia/policy/topo-numa-last-group-short",),
    ),
    Difference(
        name="a-removed-text-keeps-its-cards",
        what="A register text that is removed keeps its cards while the kubelet lists some; an "
        "event says so.",
        why="A restart must not drop the cards; a dead plugin's allocatable goes to 0.",
        cases=("metax-sgpu/health/annotation-gone",),
    ),
    Difference(
        name="all-cards-that-were-asked-for",
        what="A pod gets as many Vastai cards as it asks for, or none.",
        why="HAMi binds it with fewer when the cards' `aic` is missing.",
        cases=("vastai/decode/aic-missing",),
    ),
    Difference(
        name="no-clock-in-cases",
        what="`vgpu simulate --cases` does not wait for a lock to expire.",
        why="No clock runs there; the operator itself waits in line.",
        cases=("nvidia/bind/pod-group-lock-expires",),
    ),
)

ALL = RULES + ROWS

if __name__ == "__main__":
    from support import compatibility_document

    compatibility_document.write()
