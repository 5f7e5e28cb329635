"""Deliberate differences from HAMi v2.10.0 that name the recorded cases that show them."""

from support import compatibility_admission as admission
from support import compatibility_rules as rules
from support.compatibility_seen import Difference

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
        what="A `;` always ends a container, also where a text of one container is read.",
        why="HAMi gives up such a text. No pod is placed otherwise: a pod's whole text is split "
        "there by HAMi too.",
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
        what="A card without an id is left out, and an event says so.",
        why="HAMi promises a card that no plugin can find, and the pod's containers fail to start.",
        cases=("codec/node-json-decode/list-empty-object", "metax-sgpu/decode/no-uuid"),
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
        name="a-failed-bind-removes-no-lock",
        what="A bind that fails at a lock leaves it where it is.",
        why="HAMi removes the lock of the pod that is being served; the next pod's Allocate can "
        "then be given that pod's cards.",
        explains=rules.lock_removed,
        cases=("cambricon-mlu/bind/lock-2min", "nvidia/bind/locked-legacy-fresh"),
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
        why="HAMi takes the rest of the line for one word, so that one reason hides the others in "
        "its events.",
        cases=("codec/parse-reason/04",),
    ),
    Difference(
        name="a-percentage-of-nothing",
        what="A percentage of a card that registers no memory is refused.",
        why="It would promise 0 MiB, which the plugin takes for no limit.",
        cases=("nvidia/fit/devmem-zero-pct", "cambricon-mlu/decode/no-mem"),
    ),
    Difference(
        name="too-large-in-its-unit",
        what="An amount that is too large once it is counted in MiB is refused like one that is "
        "too large itself.",
        why="HAMi reads no request from it and lets the pod start anywhere, without a card.",
        explains=admission.after_a_refusal,
        cases=("metax-sgpu/request/vmemory-1073741824", "nvidia/config/memory-factor-overflow"),
    ),
    Difference(
        name="amd-cards-are-counted",
        what="`amd.com/gpumem` without `amd.com/gpu` is refused with a sentence that names both.",
        why="HAMi takes the pod over, reads no request from it, and lets it start anywhere, "
        "without a card.",
        explains=admission.after_a_refusal,
        cases=("amd/request/mem-only",),
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
        why="HAMi follows two of them: a pod that needs the others is refused, or placed without "
        "any core.",
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
        why="HAMi forgets slices when it counts again, so that a full card, and its node's score, "
        "look emptier than they are.",
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
        why="HAMi charges the rounded slice but leaves the smaller number in the pod: a quota and "
        "whoever reads the pod see less than it holds.",
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
        why="HAMi gives a pod that asks for 50 % of the cores an instance with 14 %.",
        cases=("nvidia/fit/mig-cores-50",),
    ),
    Difference(
        name="mig-container-index",
        what="A MIG allocation names the container by its place in the pod.",
        why="HAMi counts only containers that it wrote a segment for; behind one without a card, "
        "the instance is kept account of for the wrong container.",
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
        why="HAMi looks at the one that it walked last, and refuses the pod although another one "
        "has enough cards.",
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
