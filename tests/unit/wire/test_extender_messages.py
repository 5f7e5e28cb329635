"""Bodies of kube-scheduler's extender protocol."""

import orjson
import pytest

from vgpu_operator.model import errors
from vgpu_operator.wire import extender

POD = {"metadata": {"name": "p1", "namespace": "team-a", "uid": "u1"}}


def body(**fields: object) -> bytes:
    return orjson.dumps(fields)


def test_names_are_read_with_the_pod_untouched() -> None:
    args = extender.decode_filter(body(Pod=POD, NodeNames=["node-a", "node-b"], Nodes=None))

    assert args == extender.FilterArgs(pod=POD, node_names=("node-a", "node-b"))


def test_field_names_are_read_without_regard_to_case_as_go_does() -> None:
    args = extender.decode_filter(body(pod=POD, nodenames=["node-a"]))

    assert args.node_names == ("node-a",)


def test_a_name_that_comes_twice_is_kept_once_in_its_first_place() -> None:
    args = extender.decode_filter(body(Pod=POD, NodeNames=["b", "a", "b"]))

    assert args.node_names == ("b", "a")


def test_an_empty_list_of_names_is_a_question_about_no_node() -> None:
    assert extender.decode_filter(body(Pod=POD, NodeNames=[])).node_names == ()


def test_whole_nodes_are_the_dry_run() -> None:
    node = {"metadata": {"name": "template"}}

    args = extender.decode_filter(body(Pod=POD, Nodes={"items": [node]}, NodeNames=None))

    assert (args.node_names, args.nodes) == (None, (node,))


def test_a_go_list_without_items_is_empty() -> None:
    assert extender.decode_filter(body(Pod=POD, Nodes={"items": None})).nodes == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"not json", "the body is not JSON"),
        (b'{"Pod":', "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"[1]", "must be a JSON object, not list"),
        (b"null", "must be a JSON object, not NoneType"),
        (body(NodeNames=["node-a"]), "Pod is missing"),
        (body(Pod=None, NodeNames=["node-a"]), "Pod is missing"),
        (body(Pod="p", NodeNames=["node-a"]), "Pod is missing or no object"),
        (body(Pod={}, NodeNames=["node-a"]), "Pod.metadata is missing"),
        (body(Pod=POD), "neither NodeNames nor a list of named Nodes"),
        (body(Pod=POD, NodeNames=None, Nodes=None), "neither NodeNames nor"),
        (body(Pod=POD, NodeNames="node-a"), "NodeNames must be a list of texts"),
        (body(Pod=POD, NodeNames=["a", 5]), "NodeNames must be a list of texts"),
        (body(Pod=POD, Nodes={}), "neither NodeNames nor"),
        (body(Pod=POD, Nodes={"items": ["x"]}), "neither NodeNames nor"),
        (body(Pod=POD, Nodes={"items": [{"metadata": {}}]}), "neither NodeNames nor"),
    ],
)
def test_case_93_and_94_a_bad_filter_body_gets_one_sentence(text: bytes, words: str) -> None:
    with pytest.raises(errors.DecodeError, match=words) as caught:
        extender.decode_filter(text)

    assert caught.value.key == "/filter"


def test_the_sentence_names_the_path_that_was_asked() -> None:
    with pytest.raises(errors.DecodeError, match="/prioritize: the body is empty"):
        extender.decode_filter(b"", what="/prioritize")


BIND = {"PodNamespace": "team-a", "PodName": "p1", "PodUID": "u1", "Node": "node-a"}


def test_a_bind_body_is_read() -> None:
    assert extender.decode_bind(orjson.dumps(BIND)) == extender.BindArgs(
        namespace="team-a", name="p1", uid="u1", node="node-a"
    )


@pytest.mark.parametrize("field", list(BIND))
@pytest.mark.parametrize("value", [None, "", 5, "n" * 254, {}], ids=repr)
def test_every_field_of_a_bind_must_be_a_name(field: str, value: object) -> None:
    with pytest.raises(errors.DecodeError, match=f"{field} is missing or no name"):
        extender.decode_bind(orjson.dumps({**BIND, field: value}))


def test_a_filter_answer_has_gos_field_names() -> None:
    answer = extender.encode_filter(
        node_names=["node-a"],
        failed={"node-b": "1/1 CardInsufficientMemory"},
        unresolvable={"node-c": "node unregistered"},
    )

    assert orjson.loads(answer) == {
        "NodeNames": ["node-a"],
        "FailedNodes": {"node-b": "1/1 CardInsufficientMemory"},
        "FailedAndUnresolvableNodes": {"node-c": "node unregistered"},
        "Error": "",
    }


def test_a_dry_run_is_answered_with_nodes_and_no_names() -> None:
    answer = orjson.loads(extender.encode_filter(nodes=[{"metadata": {"name": "t"}}]))

    assert answer["Nodes"] == {"metadata": {}, "items": [{"metadata": {"name": "t"}}]}
    assert answer["NodeNames"] is None


def test_scores_and_bind_results_are_written() -> None:
    assert orjson.loads(extender.encode_priorities(["a", "b"], [0, 100])) == [
        {"Host": "a", "Score": 0},
        {"Host": "b", "Score": 100},
    ]
    assert orjson.loads(extender.encode_bind()) == {"Error": ""}
    assert orjson.loads(extender.encode_bind("no")) == {"Error": "no"}
