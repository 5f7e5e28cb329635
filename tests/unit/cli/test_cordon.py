"""``vgpu cordon`` and ``vgpu uncordon`` change one list of one node."""

import pytest

from vgpu_operator.kube import errors

KEY = "hami.io/device-cordon"


def listed(command_line, node):
    return command_line.kube.objects[f"/api/v1/nodes/{node}"]["metadata"]["annotations"].get(KEY)


def test_a_card_is_named_by_its_id_or_by_node_and_index(command_line):
    assert command_line.run("cordon", "GPU-b1") == 0
    assert command_line.out == "card GPU-b1 on n2 cordoned\n"
    assert command_line.run("cordon", "n2/0") == 0

    assert listed(command_line, "n2") == "GPU-b1,GPU-b0"


def test_what_is_so_already_is_no_fault_and_no_write(command_line):
    assert command_line.run("cordon", "GPU-a0") == 0

    assert command_line.out == "card GPU-a0 on n1 already cordoned\n"
    assert command_line.kube.sent("PATCH") == []


def test_the_last_card_takes_the_annotation_with_it(command_line):
    assert command_line.run("uncordon", "n1/0") == 0

    assert listed(command_line, "n1") is None


def test_a_card_that_is_gone_can_be_taken_off_the_list(command_line):
    node = command_line.kube.objects["/api/v1/nodes/n2"]
    node["metadata"]["annotations"][KEY] = "GPU-gone"
    command_line.kube.put("/api/v1/nodes/n2", node)

    assert command_line.run("cordon", "GPU-gone") == 1
    assert command_line.run("uncordon", "GPU-gone") == 0
    assert listed(command_line, "n2") is None


def test_nothing_is_written_when_one_of_the_cards_is_not_there(command_line):
    assert command_line.run("cordon", "GPU-b0", "GPU-nix") == 1

    assert "no node has registered a card 'GPU-nix'" in command_line.err
    assert listed(command_line, "n2") is None


@pytest.mark.parametrize(("conflicts", "code"), [(4, 0), (5, 1)])
def test_a_node_that_others_write_to_is_read_again(command_line, conflicts, code):
    for _ in range(conflicts):
        command_line.kube.fail_next("PATCH", "/nodes/n2", errors.Conflict("409", status=409))

    assert command_line.run("cordon", "GPU-b0") == code
