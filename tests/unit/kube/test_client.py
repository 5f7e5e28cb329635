"""The API client against a real HTTP server on loopback."""

import pathlib
from typing import Any

import orjson
import pytest
from aiohttp import web

from support.loopback import always, api_server
from vgpu_operator.kube import client, errors

FORBIDDEN = {"kind": "Status", "message": 'nodes "node-a" is forbidden', "code": 403}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Denied),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Expired),
        (418, errors.ApiError),
        (422, errors.Invalid),
        (429, errors.TooMany),
        (500, errors.ServerFault),
        (503, errors.ServerFault),
    ],
)
async def test_each_status_is_an_error_of_its_own_kind(
    status: int, kind: type[errors.ApiError]
) -> None:
    async with api_server(always(status, {"message": "the server's words"})) as served:
        with pytest.raises(errors.ApiError) as caught:
            await served.kube.get("/api/v1/nodes/node-a")

    assert type(caught.value) is kind
    assert str(caught.value) == f"GET /api/v1/nodes/node-a: {status} the server's words"
    assert caught.value.status == status


async def test_a_patch_for_an_earlier_pod_of_that_name_is_a_conflict() -> None:
    # As kube-apiserver 1.36 answers: the UID in a merge patch is no precondition to it.
    words = 'Pod "p" is invalid: metadata.uid: Invalid value: "u1": field is immutable'
    async with api_server(always(422, {"message": words})) as served:
        with pytest.raises(errors.Conflict, match=r"422 .*field is immutable"):
            await served.kube.patch("/api/v1/pods/p", {"metadata": {"uid": "u1"}})


async def test_an_error_without_json_says_what_came_and_is_cut() -> None:
    async with api_server(always(502, b"<html>bad gateway" + b"x" * 5000)) as served:
        with pytest.raises(errors.ServerFault, match="502 <html>bad gateway") as caught:
            await served.kube.get("/api/v1/nodes")

    assert len(str(caught.value)) < 600


async def test_an_answer_that_is_no_json_is_a_fault_of_the_server() -> None:
    async with api_server(always(200, b"<html>log in first</html>")) as served:
        with pytest.raises(errors.ServerFault, match=r"GET /version: 200 .*no JSON"):
            await served.kube.get("/version")


async def test_the_token_is_sent_and_never_told() -> None:
    echo = {"message": "bad Bearer s3cr3t-token in the header"}
    async with api_server(always(401, echo), token="s3cr3t-token") as served:  # noqa: S106
        with pytest.raises(errors.Unauthorized) as caught:
            await served.kube.get("/api/v1/nodes")
        credentials = await served.kube.credentials()
        (arrived,) = served.arrived

    assert arrived[2]["authorization"] == "Bearer s3cr3t-token"
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in repr(credentials)
    assert credentials.token == "s3cr3t-token"  # noqa: S105


async def test_no_server_at_all_is_unreachable_and_names_the_address() -> None:
    async with api_server(always(200, {})) as served:
        url = served.url
    configuration = client.k8s_client.Configuration()
    configuration.host = url
    async with client.KubeClient(configuration) as kube:
        with pytest.raises(errors.Unreachable, match=f"GET {url}/version: "):
            await kube.get("/version")


async def test_a_connection_that_breaks_before_the_answer_is_unreachable() -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with api_server(hang_up) as served:
        with pytest.raises(errors.Unreachable, match=r"POST .*/binding"):
            await served.kube.create("/api/v1/namespaces/a/pods/p/binding", {"kind": "Binding"})


ENDING = {
    "kind": "Status",
    "message": 'events "e" is forbidden: unable to create new content in namespace a because it is'
    " being terminated",
    "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace a is ..."}]},
    "code": 403,
}


@pytest.mark.parametrize(
    ("status", "answer", "told_as", "error"),
    [
        (409, {"message": "no"}, "409", errors.Conflict),
        (403, FORBIDDEN, "403", errors.Denied),
        (403, ENDING, client.ENDING, errors.NamespaceEnding),
    ],
)
async def test_every_request_is_told_with_its_status(
    status: int, answer: dict[str, Any], told_as: str, error: type[errors.ApiError]
) -> None:
    told: list[tuple[str, str, str]] = []
    async with api_server(always(status, answer)) as served:
        served.kube.on_answer = lambda verb, path, status, _: told.append((verb, path, status))
        with pytest.raises(error) as raised:
            await served.kube.patch("/api/v1/nodes/n", {"metadata": {}})

    assert told == [("PATCH", "/api/v1/nodes/n", told_as)]
    assert type(raised.value) is error


async def test_a_request_without_an_answer_is_told_as_0() -> None:
    told: list[str] = []
    async with api_server(always(200, {})) as served:
        served.kube._base = "http://127.0.0.1:1"
        served.kube.on_answer = lambda _verb, _path, status, _: told.append(status)
        with pytest.raises(errors.Unreachable):
            await served.kube.get("/api/v1/nodes/n")

    assert told == ["0"]


async def test_a_patch_says_that_it_is_a_merge_patch() -> None:
    async with api_server(always(200, {"metadata": {"resourceVersion": "7"}})) as served:
        answer = await served.kube.patch(
            "/api/v1/nodes/n", {"metadata": {"annotations": {"a": None}}}
        )
        ((verb, path, headers, sent),) = served.arrived

    assert answer["metadata"]["resourceVersion"] == "7"
    assert (verb, path, headers["content-type"]) == (
        "PATCH",
        "/api/v1/nodes/n",
        "application/merge-patch+json",
    )
    assert orjson.loads(sent) == {"metadata": {"annotations": {"a": None}}}


async def test_a_deletion_is_conditioned_on_the_uid() -> None:
    async with api_server(always(200, {})) as served:
        await served.kube.delete("/api/v1/namespaces/a/pods/p", uid="u1")
        (arrived,) = served.arrived

    assert orjson.loads(arrived[3])["preconditions"] == {"uid": "u1"}


async def test_a_list_follows_its_pages_and_keeps_the_first_version() -> None:
    async def pages(request: web.Request) -> web.StreamResponse:
        if request.query.get("continue") == "more":
            return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [2]})
        return web.json_response(
            {"metadata": {"resourceVersion": "8", "continue": "more"}, "items": [1]}
        )

    async with api_server(pages) as served:
        assert await served.kube.list("/api/v1/pods") == ([1, 2], "8")
        assert [path for _, path, _, _ in served.arrived] == [
            "/api/v1/pods?limit=1000",
            "/api/v1/pods?limit=1000&continue=more",
        ]


def stream(*chunks: bytes) -> object:
    """Return an answer that sends these chunks and ends."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return answer


async def test_watch_events_are_parsed_wherever_the_chunks_break() -> None:
    chunks = (
        b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n{"type":"MODI',
        b'FIED","object":{"metadata":{"name":"b","resourceVersion":"7"}}}\n',
        b'{"type":"DELETED","object":{"metadata":{"name":"c","resourceVersion":"7"}}}\n',
    )
    async with api_server(stream(*chunks)) as served:  # type: ignore[arg-type]
        events = [e async for e in served.kube.watch("/api/v1/nodes", resource_version="5")]
        (arrived,) = served.arrived

    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "b"),
        ("DELETED", "c"),
    ]
    assert "watch=true" in arrived[1]
    assert "resourceVersion=5" in arrived[1]
    assert "allowWatchBookmarks=true" in arrived[1]


async def test_a_watch_that_began_too_early_says_that_it_must_list_again() -> None:
    error = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n'
    async with api_server(stream(error)) as served:  # type: ignore[arg-type]
        with pytest.raises(errors.Expired, match="too old"):
            async for _ in served.kube.watch("/api/v1/nodes", resource_version="1"):
                pass


async def test_a_watch_that_is_refused_is_an_error_by_its_status() -> None:
    async with api_server(always(403, FORBIDDEN)) as served:
        with pytest.raises(errors.Denied, match="WATCH /api/v1/nodes: 403"):
            async for _ in served.kube.watch("/api/v1/nodes", resource_version="1"):
                pass


async def test_a_watch_line_that_is_no_json_is_a_fault_of_the_server() -> None:
    async with api_server(stream(b"<html>\n")) as served:  # type: ignore[arg-type]
        with pytest.raises(errors.ServerFault, match="no JSON"):
            async for _ in served.kube.watch("/api/v1/nodes", resource_version="1"):
                pass


@pytest.mark.parametrize(
    "line",
    [
        b"[1]\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":7}\n',
        b'{"type":"BOOKMARK","object":{}}\n',
        b'{"type":"ERROR","object":{"code":"many"}}\n',
    ],
)
async def test_a_watch_event_of_another_shape_is_a_fault_of_the_server(line: bytes) -> None:
    async with api_server(stream(line)) as served:  # type: ignore[arg-type]
        with pytest.raises(errors.ServerFault):
            async for _ in served.kube.watch("/api/v1/nodes", resource_version="1"):
                pass


async def test_waiting_for_the_server_tells_each_failure_and_ends_with_an_answer() -> None:
    answers = iter([always(503, {"message": "starting"}), always(200, {"minor": "36"})])

    async def next_answer(request: web.Request) -> web.StreamResponse:
        return await next(answers)(request)

    async with api_server(next_answer) as served:
        told = [str(fault) async for fault in served.kube.wait_until_reachable(pause_s=0)]

    assert told == ["GET /version: 503 starting"]


async def test_a_kubeconfig_that_is_not_there_is_one_sentence_with_the_next_step(
    tmp_path: pathlib.Path,
) -> None:
    missing = tmp_path / "nowhere"

    with pytest.raises(client.ConfigurationError) as caught:
        await client.load_configuration(kubeconfig=str(missing))

    assert str(caught.value) == (
        f"kubeconfig {missing} does not exist; name an existing file with --kubeconfig"
    )


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (None, "~/.kube/config does not exist; give --kubeconfig FILE or set KUBECONFIG"),
        ("/nowhere", "/nowhere does not exist; give --kubeconfig FILE or correct KUBECONFIG"),
        ("/a:/b", "/a:/b does not exist; give --kubeconfig FILE or correct KUBECONFIG"),
    ],
    ids=["none", "KUBECONFIG", "two files"],
)
async def test_no_kubeconfig_at_all_is_one_sentence_with_the_next_step(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, named: str | None, words: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if named:
        monkeypatch.setenv("KUBECONFIG", named)

    with pytest.raises(client.ConfigurationError) as caught:
        await client.load_configuration()

    assert str(caught.value) == f"no kubeconfig: {words}"


async def test_the_kubeconfig_of_the_environment_is_found_as_it_is_now(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "second").write_text(KUBECONFIG % "bm8gY2VydGlmaWNhdGU=", encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/first:{tmp_path}/second")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    found = await client.load_configuration()

    assert found.host == "https://127.0.0.1:1"


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority-data: %s}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    "text",
    [
        "{{",
        "- a list",
        "just words",
        "",
        "apiVersion: v1\nkind: Config\n",
        "current-context: gone\ncontexts: []\nclusters: []\nusers: []\n",
        KUBECONFIG % "x",
        "\x00\x01",
    ],
    ids=["no YAML", "list", "words", "empty", "no context", "gone", "bad base64", "binary"],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_sentence_that_names_it(
    tmp_path: pathlib.Path, text: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(client.ConfigurationError, match=r"^cannot use ") as caught:
        await client.KubeClient.connect(kubeconfig=str(path))

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_certificate_authority_that_is_none_is_one_sentence(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % "bm8gY2VydGlmaWNhdGU=")

    with pytest.raises(client.ConfigurationError, match="certificate"):
        await client.KubeClient.connect(kubeconfig=str(path))


async def test_a_context_that_the_kubeconfig_does_not_have_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % "bm8gY2VydGlmaWNhdGU=")

    with pytest.raises(client.ConfigurationError, match="elsewhere"):
        await client.load_configuration(kubeconfig=str(path), context="elsewhere")
