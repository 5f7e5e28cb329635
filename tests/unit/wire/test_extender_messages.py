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


def test_names_keep_their_order_and_one_that_comes_twice_is_there_twice() -> None:
    args = extender.decode_filter(body(Pod=POD, NodeNames=["b", "a", "b"]))

    assert args.node_names == ("b", "a", "b")


def test_names_that_are_expected_are_known_again_without_being_read() -> None:
    names = extender.names_of(["node-b", "node-a"])

    args = extender.decode_filter(
        body(Pod=POD, Nodes=None, NodeNames=["node-b", "node-a"]), expected=names
    )

    assert args.pod == POD
    assert args.node_names is names.names


@pytest.mark.parametrize(
    "sent",
    [["node-a", "node-b"], ["node-b"], ["node-b", "node-a", "node-c"], []],
)
def test_other_names_than_expected_are_read(sent: list[str]) -> None:
    names = extender.names_of(["node-b", "node-a"])

    args = extender.decode_filter(body(Pod=POD, NodeNames=sent), expected=names)

    assert args.node_names == tuple(sent)


def test_the_expected_names_inside_of_the_pod_are_not_taken_for_the_question() -> None:
    names = extender.names_of(["node-a"])
    pod = {**POD, "spec": {"NodeNames": ["node-a"], "x": '"NodeNames":["node-a"]'}}

    args = extender.decode_filter(body(Pod=pod, NodeNames=["node-b"]), expected=names)

    assert (args.pod, args.node_names) == (pod, ("node-b",))


@pytest.mark.parametrize("fields", [{}, {"NodeNames": None}])
def test_the_expected_names_inside_of_the_pod_are_no_question(fields: dict[str, None]) -> None:
    pod = {**POD, "spec": {"NodeNames": ["node-a"]}}

    with pytest.raises(errors.DecodeError, match="neither NodeNames nor"):
        extender.decode_filter(body(Pod=pod, **fields), expected=extender.names_of(["node-a"]))


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
        node_names=extender.names_of(["node-a"]),
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


@pytest.mark.parametrize(
    "hosts", [[], ["a"], ["a", "b"], ["a,b"], ['a","b', "c"], ["ä", '"', "\\"]], ids=repr
)
def test_every_host_is_written_with_its_score(hosts: list[str]) -> None:
    scores = [0, 100, 7][: len(hosts)]

    answer = extender.encode_priorities(extender.names_of(hosts), scores)

    assert orjson.loads(answer) == [
        {"Host": host, "Score": score} for host, score in zip(hosts, scores, strict=True)
    ]


def test_bind_results_are_written() -> None:
    assert orjson.loads(extender.encode_bind()) == {"Error": ""}
    assert orjson.loads(extender.encode_bind("no")) == {"Error": "no"}
