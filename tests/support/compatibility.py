"""Every deliberate difference from HAMi v2.10.0's recorded answers, as data.

A *rule* says by a predicate on the recorded case and our answer which
differing fields it explains. A *row* (``compatibility_rows``) names the recorded
cases themselves.
``docs/compatibility.md`` shows both, in the sections of ``compatibility_groups``;
``PYTHONPATH=operator:tests python -m support.compatibility`` writes its tables.
"""

from support import compatibility_admission as admission
from support import compatibility_rules as rules
from support.compatibility_rows import ROWS
from support.compatibility_seen import Difference

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
        explains=admission.nonsense,
    ),
    Difference(
        name="refusals-in-a-sentence",
        what="A refusal's text says what to change; a bad value is answered with 422, not 500.",
        why="A bad value is the author's fault, not the server's; the author has to know what "
        "to write.",
        explains=admission.refusal_words,
    ),
    Difference(
        name="other-schedulers-without-a-remark",
        what="A pod of another scheduler is allowed without a remark.",
        why="Nothing is wrong with it.",
        explains=admission.remark,
    ),
    Difference(
        name="a-count-of-0-asks-for-nothing",
        what="A container whose count is 0 asks for no card; a pod of such containers is left "
        "as it is.",
        why="HAMi takes the pod over and then places it anywhere.",
        explains=admission.count_of_zero,
    ),
    Difference(
        name="requests-count-as-limits",
        what="An amount that stands in requests only is copied to limits.",
        why="The API server wants both to be equal for such resources, and a default beside the "
        "author's number would contradict it.",
        explains=admission.limits_from_requests,
    ),
    Difference(
        name="amounts-in-requests-count",
        what="An amount that stands in requests only counts like a limit, whatever the vendor.",
        why="HAMi reads some of them and passes over others, so a pod gets more or less than its "
        "author wrote.",
        explains=admission.only_in_requests,
    ),
    Difference(
        name="requests-are-left-to-the-api-server",
        what="Admission sets limits; requests of the same name are left to the API server, "
        "which copies them from limits.",
        why="The stored pod is the same; a patch that is not needed cannot collide with another "
        "webhook's.",
        explains=admission.requests_left_alone,
    ),
    Difference(
        name="cores-end-at-100",
        what="More than 100 cores are counted as 100 from the start.",
        why="HAMi lowers the number later; the cards are the same.",
        explains=admission.cores_above_whole,
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
        what="A changed register text counts as soon as it is seen, and as a sign of life: the "
        "handshake is stamped anew.",
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
        what="A lock whose text cannot be read is one that is held, and ends with its expiry; the "
        "bind's error says that it is held.",
        why="HAMi fails every bind on that node until somebody removes the lock.",
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

ALL = RULES + ROWS

if __name__ == "__main__":
    from support import compatibility_document

    compatibility_document.write()
