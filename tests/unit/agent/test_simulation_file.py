import pytest

from vgpu_operator.agent import spec
from vgpu_operator.model import errors


def test_cards_may_be_counted_or_listed():
    simulation = spec.build(
        {
            "nodes": [
                {"name": "a", "cards": [{"id": "GPU-x", "memory": 1024, "count": 4}]},
                {"prefix": "b-", "count": 2, "cards": 2, "memory": 2048, "slots": 5},
            ]
        }
    )

    listed, counted = simulation.nodes
    assert listed.names == ("a",)
    assert listed.devices_of("a")["NVIDIA"][0].id == "GPU-x"
    assert listed.devices_of("a")["NVIDIA"][0].slots == 4
    assert counted.names == ("b-1", "b-2")
    assert [
        (card.id, card.index, card.memory_mib, card.slots)
        for card in counted.devices_of("b-2")["NVIDIA"]
    ] == [("GPU-b-2-0", 0, 2048, 5), ("GPU-b-2-1", 1, 2048, 5)]


def test_equal_cards_lie_on_numa_nodes_in_blocks():
    entry = spec.build({"name": "a", "cards": 4, "numaNodes": 2}).nodes[0]

    assert [card.numa for card in entry.devices_of("a")["NVIDIA"]] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "seconds"), [("200ms", 0.2), ("0.2s", 0.2), ("2m", 120.0), (3, 3.0), ("1.5", 1.5)]
)
def test_durations_are_read(text, seconds):
    assert spec.build({"name": "a", "delay": text}).nodes[0].delay == seconds


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"nodes": []}, "nodes is empty", id="no node"),
        pytest.param(
            {"nodes": [{"cards": 1}]}, "nodes.0: give either name, or prefix", id="no name"
        ),
        pytest.param(
            {"nodes": [{"name": "a", "count": 2}]}, "nodes.0: count belongs to prefix", id="count"
        ),
        pytest.param(
            {"nodes": [{"name": "a", "speed": 1, "cards": [{"colour": "red"}]}]},
            "nodes.0.cards.0.colour: there is no such field; nodes.0.speed: there is no such field",
            id="unknown field",
        ),
        pytest.param(
            {"nodes": [{"name": "a", "cards": [{"memory": -1}]}]},
            "wrong at nodes.0.cards.0.memory: Input should be greater than or equal to 0",
            id="negative memory",
        ),
        pytest.param(
            {"nodes": [{"name": "a", "delay": "soon"}]}, "'soon' is no duration", id="delay"
        ),
        pytest.param({"nodes": [{"name": "A_b"}]}, "nodes.0.name: ", id="bad name"),
        pytest.param(
            {"nodes": [{"name": "a-1"}, {"prefix": "a-", "count": 3}]},
            "node a-1 is described twice",
            id="twice",
        ),
        pytest.param(
            {"name": "a", "cards": [{}, {"id": "a,b:;"}]},
            "nodes.0.cards.1.id: 'a,b:;' would fall apart in the protocol's texts",
            id="an id with separators",
        ),
        pytest.param(
            {"name": "a", "cards": 1, "type": "A:B"},
            "nodes.0.type: 'A:B' would fall apart",
            id="a type with separators",
        ),
        pytest.param(
            {"name": "a", "cards": [{"id": "x"}, {"id": "y"}, {"id": "x"}]},
            "nodes.0: NVIDIA cards 0 and 2 have one id, 'x'",
            id="one id twice",
        ),
        pytest.param(
            {"name": "a", "cards": [{"id": "GPU-a-1"}, {}]},
            "nodes.0: NVIDIA cards 0 and 1 have one id, 'GPU-a-1'",
            id="the id that another gets",
        ),
        pytest.param(
            {"roundInterval": 0, "nodes": [{"name": "a"}]},
            "roundInterval: Input should be greater than or equal to 0.01",
            id="no pause",
        ),
        pytest.param(
            {"name": "a", "delay": float("nan")},
            "nodes.0.delay: Input should be a finite number",
            id="no number",
        ),
        pytest.param([], "the top: ", id="a list"),
        pytest.param(None, "the top: ", id="nothing"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(values, words):
    with pytest.raises(errors.SettingsError) as caught:
        spec.build(values)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_read_as_yaml(tmp_path):
    path = tmp_path / "nodes.yaml"
    path.write_text("nodes:\n- {name: a, cards: [{memory: 1, healthy: false}]}\n")

    assert not spec.load(path).nodes[0].devices_of("a")["NVIDIA"][0].healthy


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "cannot be read: No such file", id="absent"),
        pytest.param(b"\xff\xfe", "cannot be read", id="not text"),
        pytest.param(b"nodes: [", "line 2: it is no YAML", id="not yaml"),
        pytest.param(b"a: &a [*a]", "line 1: *a stands within &a itself", id="within itself"),
        pytest.param(b"nodes: " + b"[" * 3000, "nested deeper than 100", id="deep"),
        pytest.param(b"x:\n  y: !!int ''", "line 2: '' cannot be read", id="no number"),
        pytest.param(
            b"nodes: [{name: a, cards: [{}, {vendor: nope}]}]",
            "nodes.0.cards.1.vendor: 'nope' is none of NVIDIA, MLU",
            id="unknown vendor of a card",
        ),
        pytest.param(
            b"nodes: [{name: a, cards: 2, vendor: nope}]",
            "nodes.0.vendor: 'nope' is none of NVIDIA, MLU",
            id="unknown vendor",
        ),
        pytest.param(b"nodes: 7", "nodes: ", id="another type"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, words):
    path = tmp_path / "nodes.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(errors.SettingsError) as caught:
        spec.load(path)

    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_failure_file_marks_cards_unhealthy():
    entry = spec.build(
        {"name": "a", "cards": 2, "failures": {"unhealthy": ["GPU-a-1"], "vanishAfter": "3s"}}
    ).nodes[0]

    assert [card.healthy for card in entry.devices_of("a")["NVIDIA"]] == [True, False]
    assert entry.failures.vanish_after == 3.0
