"""Deliberate differences from HAMi that no recorded answer can show: time, writes, leadership.

Each names the test that holds it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ByDesign:
    """One line of the document.

    Attributes:
        name: how tests and people call it.
        what: what we do otherwise.
        why: a reason that a user of HAMi accepts.
        switch: the setting that brings HAMi's way back; empty when there is none.
        test: file below ``tests/`` and name of the test.
    """

    name: str
    what: str
    why: str
    switch: str = ""
    test: str


BY_DESIGN: tuple[ByDesign, ...] = (
    # Admission
    ByDesign(
        name="own-variables-stay",
        what="A variable that a container sets itself is left as it is.",
        why="HAMi adds its own behind it, and the later one counts.",
        test="unit/flows/test_admit_rules.py::test_a_variable_that_the_container_sets_itself_stays",
    ),
    ByDesign(
        name="protocol-keys-are-stripped",
        what="Annotations and labels that only the protocol writes are removed from new pods.",
        why="A manifest copied from a live pod would name the cards of that one.",
        test="unit/flows/test_admit_rules.py"
        "::test_protocol_keys_of_a_copied_manifest_go_and_the_users_stay",
    ),
    # Nodes
    ByDesign(
        name="nothing-written-to-a-locked-node",
        what="Stamps and other writes wait while a node is locked.",
        why="A plugin that is serving a pod pays for every conflict with two of its five "
        "requests a second.",
        test="unit/flows/test_register_handshake.py"
        "::test_nothing_is_written_to_a_locked_node_and_the_stamp_follows_when_it_is_free",
    ),
    ByDesign(
        name="stamps-from-the-future-age",
        what="A stamp, or a lock, whose time lies ahead ages from when it was first seen.",
        why="With HAMi it never expires when a node's clock was once ahead.",
        test="unit/flows/test_register_handshake.py"
        "::test_a_stamp_from_the_future_ages_from_when_it_was_first_seen",
    ),
    ByDesign(
        name="stamps-in-utc",
        what="Stamps are written in UTC.",
        why="HAMi writes its own local time; plugins and replicas in other zones read it wrong.",
        test="unit/wire/test_handshake.py::test_the_three_stamps_are_written_with_utc_time",
    ),
    ByDesign(
        name="cordons-for-every-vendor",
        what="`hami.io/device-cordon` keeps new pods off any vendor's cards.",
        why="HAMi looks at it for NVIDIA only; a broken card of another vendor needs it as much.",
        test="unit/flows/test_register_cards.py::test_a_cordoned_card_takes_no_new_pod",
    ),
    # Books
    ByDesign(
        name="promises-are-capped-by-requests",
        what="A pod is charged at most what its own containers ask for; the rest is reported.",
        why="A forged annotation could block every card of a node.",
        switch="ledger.trust: annotations",
        test="unit/ledger/test_trust_and_defaults.py"
        "::test_an_amount_that_the_container_names_caps_what_its_annotation_promises",
    ),
    ByDesign(
        name="slots-after-init-containers",
        what="When init containers are done, memory and cores shrink to what the containers "
        "need; slots stay until the pod ends.",
        why="The kubelet keeps the device ids for the pod's life; HAMi gives them away and the "
        "kubelet then refuses the next pod.",
        test="unit/ledger/test_charges.py"
        "::test_slots_stay_at_their_peak_when_init_containers_are_done",
    ),
    ByDesign(
        name="a-failed-phase-frees-no-card",
        what="`bind-phase: failed` frees the lock, not the cards.",
        why="A plugin can mark a pod that runs; its cards are free when the pod has ended.",
        test="unit/flows/test_reconcile_pods.py::test_a_failed_phase_frees_no_card_and_is_told_once",
    ),
    ByDesign(
        name="busy-nodes-come-behind",
        what="Nodes whose lock is taken or wanted are scored just below the last of those where it "
        "is free, whichever the node policy.",
        why="Under HAMi's binpack a burst stands in line at one node. Among free nodes, and among "
        "equally busy ones, the policy decides as before; preferred affinity decides over both.",
        switch="scoring.avoidBusyNodes: false",
        test="unit/flows/test_busy_nodes.py"
        "::test_a_node_that_a_pod_waits_at_comes_behind_all_that_are_free",
    ),
    ByDesign(
        name="claims-between-filter-and-bind",
        what="A filter holds a claim on the node that kube-scheduler will probably take, for a "
        "second.",
        why="HAMi writes the promise in its filter; here a filter writes nothing, and the next "
        "pod should look elsewhere all the same.",
        switch="claims.lifetimeS: 0",
        test="unit/flows/test_filter_answers.py"
        "::test_a_pod_that_fits_holds_a_claim_that_the_next_pod_sees",
    ),
    # Filter and scores
    ByDesign(
        name="filters-write-nothing",
        what="A filter answers with every node that fits and writes nothing; nodes that no "
        "eviction can help are named as such.",
        why="HAMi chooses the one node itself, past kube-scheduler's other plugins, and leaves "
        "annotations on pods that are never bound.",
        test="unit/extender/test_routes.py"
        "::test_a_filter_names_the_nodes_that_fit_and_why_the_others_do_not",
    ),
    ByDesign(
        name="scores-from-0-to-100",
        what="Node scores go to kube-scheduler as whole numbers from 0 to `scoring.maxScore`, also "
        "where some nodes are busy: free ones then have the upper nine tenths.",
        why="HAMi sends none: it has chosen the node already. The order among free nodes is "
        "HAMi's, and preferred affinity still decides between near equals.",
        test="unit/scheduling/test_scores.py::test_scores_are_mapped_onto_the_scale",
    ),
    ByDesign(
        name="refused-pods-are-woken",
        what="When cards become free, one node annotation (`vgpu-operator.io/wake`) has refused "
        "pods tried again.",
        why="In a quiet cluster kube-scheduler may leave them waiting for minutes.",
        test="unit/flows/test_wake_refused_pods.py"
        "::test_freed_cards_wake_a_pod_that_fits_now_exactly_once",
    ),
    # Bind and locks
    ByDesign(
        name="one-binding-carries-all",
        what="All annotations go into the Binding, in one step with the node.",
        why="HAMi writes them before, one call after the other; a crash between leaves a pod "
        "that holds cards nowhere.",
        test="unit/flows/test_bind_usual.py"
        "::test_the_binding_carries_every_annotation_with_the_pods_uid_and_version",
    ),
    ByDesign(
        name="texts-of-others-are-blanked",
        what="Protocol annotations of other vendors that a pod carries become empty.",
        why="A Binding cannot delete them, and their plugins would serve the pod.",
        test="unit/flows/test_bind_usual.py"
        "::test_protocol_keys_that_the_pod_carries_are_blanked_or_overwritten",
    ),
    ByDesign(
        name="no-label-that-cannot-be-one",
        what="The pod label `hami.io/vgpu-node` is left out where the node's name is no label "
        "value (longer than 63 characters).",
        why="With it every later update of the pod fails.",
        test="unit/flows/test_bind_usual.py::test_a_node_name_that_is_no_label_value_gets_no_label",
    ),
    ByDesign(
        name="binds-wait-in-line",
        what="A bind that meets a held lock waits in line, up to the extender's time limit.",
        why="HAMi fails at once (pods of a group after 28 s), kube-scheduler backs off, and a "
        "burst of pods takes many rounds.",
        switch="bind.timeLimitS: 3",
        test="unit/flows/test_bind_waits.py"
        "::test_case_96_a_second_pod_waits_while_the_first_is_allocating_and_binds_in_the_same_call",
    ),
    ByDesign(
        name="locks-end-with-their-owner",
        what="A lock passes on as soon as its owner is served, has failed, has ended or is gone.",
        why="HAMi waits until its plugin or the expiry removes it.",
        test="unit/flows/test_bind_waits.py"
        "::test_case_82_a_lock_whose_owner_is_done_passes_on_at_once",
    ),
    ByDesign(
        name="living-owners-keep-their-lock",
        what="An expired lock stays with a bound pod that no kubelet has seen yet; the node "
        "takes no further pod that uses it, and an event says so.",
        why="The plugin would give the next pod's call that pod's cards.",
        switch="bind.stuckPod: delete",
        test="unit/flows/test_bind_takes_over.py"
        "::test_an_expired_lock_of_a_bound_pod_that_no_kubelet_has_seen_is_never_taken",
    ),
    ByDesign(
        name="fenced-before-its-lock-is-taken",
        what="An unbound pod whose expired lock is taken gets the annotation "
        "`vgpu-operator.io/fenced` first.",
        why="A Binding for it may still be under way and would put two pods behind one lock.",
        test="unit/flows/test_bind_takes_over.py"
        "::test_an_expired_lock_of_an_unbound_pod_is_taken_only_after_that_pod_was_fenced",
    ),
    ByDesign(
        name="locks-of-several-vendors",
        what="While one of a pod's plugins has still to serve it, its lock passes to nobody.",
        why="The first plugin that is done removes the lock of the other one too.",
        test="unit/flows/test_bind_waits.py"
        "::test_a_lock_whose_owner_still_has_a_device_to_allocate_is_not_passed_on_at_success",
    ),
    ByDesign(
        name="the-lease-of-its-own-side-car",
        what="The operator leads when the kube-scheduler beside it holds the Lease; a holder's "
        "name has to be the whole hostname.",
        why="HAMi compares the beginning only: `x-1` leads with `x-10`.",
        test="unit/flows/test_leadership_by_lease.py"
        "::test_x_1_does_not_follow_the_lease_of_x_10_nor_the_other_way_round",
    ),
    # Quota
    ByDesign(
        name="the-tightest-quota-holds",
        what="Of several quotas of a namespace for one resource the tightest holds.",
        why="It is so with Kubernetes' own; with HAMi the one counts that was seen last.",
        test="unit/cases/test_cases_h_quota.py::test_of_several_quotas_the_tightest_holds",
    ),
    # Metrics
    ByDesign(
        name="cards-are-exported-by-the-leader-only",
        what="Series of cards, shares and quotas come from the replica that leads.",
        why="With HAMi every replica exports its pods, and one that has lost the Lease its last "
        "cards too: a sum over all replicas counts twice.",
        test="unit/metrics/test_collector.py"
        "::test_case_151_a_follower_exports_its_own_state_and_no_allocation",
    ),
    ByDesign(
        name="containers-have-series-of-their-own",
        what="`container_index` is the container's place in its pod, init containers first, and "
        "the label `container` its name.",
        why="With HAMi the index is always 0, and several containers are one series.",
        test="unit/metrics/test_collector.py"
        "::test_case_148_a_share_says_the_containers_place_in_the_pod_init_first",
    ),
)
