"""A history that finds each defect of ``mutants``; ``make simulate-mutants`` seeks the first."""

from collections.abc import Mapping
from typing import Final

FOUND_BY: Final[Mapping[str, int]] = {
    "swallow_node_conflicts": 1366,
    "swallow_binding_conflicts": 1264,
    "take_locks_unconditionally": 1366,
    "bind_in_two_steps": 0,
    "take_no_answer_for_no": 14,
    "forget_pods_that_are_deleting": 821,
    "forget_pods_that_failed": 3,
    "keep_reservations": 1,
    "lead_for_ever": 4,
    "lead_without_lease": 0,
    "ask_nobody_before_writing": 29,
    "take_awaited_locks": 28,
    "wait_for_nobody": 1,
    "take_unbound_locks": 0,
    "fence_nobody": 1528,
    "believe_the_first_plugin": 46,
    "leave_locks": 22,
    "wake_nobody": 1225,
    "drop_cards_without_kubelet": 7,
    "drop_cards_with_bad_text": 4,
    "believe_late_events": 7,
    "count_twice": 0,
    "ignore_lists": 1818,
    "refuse_without_reason": 0,
    "tell_nobody": 1,
    "choose_once": 482,
    "forget_doubts": 1528,
    "put_no_lock_back": 46,
    "jump_the_queue": 0,
}
