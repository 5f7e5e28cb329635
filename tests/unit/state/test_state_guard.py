"""Who may read the state page: this machine, or whom the API server lets see the same."""

import asyncio
import re
import ssl
from typing import Any

import aiohttp
import pytest

from support import operator_books, state_world, turned_clock
from support.waiting import settled
from vgpu_operator.kube import client, errors, listen
from vgpu_operator.model import errors as model_errors
from vgpu_operator.state import access, files, guard, routes, server


class Reviewer(client.KubeClient):
    """Answers reviews: each token's rights, and how often somebody asked."""

    def __init__(self, rights: dict[str, set[str]]) -> None:
        self.rights = rights
        self.asked: list[str] = []
        self.is_away = False

    async def create(self, path: str, body: Any) -> dict[str, Any]:
        self.asked.append(body["kind"])
        await asyncio.sleep(0)
        if self.is_away:
            raise errors.Unreachable("POST /apis: nobody there")
        spec = body["spec"]
        if path == access.TOKEN_REVIEWS:
            known = spec["token"] in self.rights
            user = {"username": spec["token"], "groups": ["people"], "extra": {"a": ["b"]}}
            return {"status": {"authenticated": known, **({"user": user} if known else {})}}
        assert path == access.ACCESS_REVIEWS
        assert spec["groups"] == ["people"]
        assert spec["extra"] == {"a": ["b"]}
        assert "namespace" not in spec["resourceAttributes"]
        resource = spec["resourceAttributes"]
        return {
            "status": {
                "allowed": f"{resource['verb']} {resource['resource']}" in self.rights[spec["user"]]
            }
        }


async def status_of(url: str, path: str = "/api/v1/status", **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as session, session.get(url + path, headers=named) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9396", "169.254.0.1", "localhost.x"]
)
@pytest.mark.parametrize("path", ["/", "/api/v1/cards", "/app.js"])
async def test_a_foreign_name_that_leads_to_loopback_is_refused(host: str, path: str) -> None:
    async with state_world.served(operator_books.open_books()) as url:
        status, text = await status_of(url, path, Host=host)

    assert status == 403
    assert "is not this machine" in text


@pytest.mark.parametrize("host", ["localhost:4000", "127.0.0.1", "[::1]:9396", "LOCALHOST"])
async def test_any_port_of_this_machine_may_be_forwarded_here(host: str) -> None:
    async with state_world.served(operator_books.open_books()) as url:
        status, _ = await status_of(url, Host=host)

    assert status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_site_reads_nothing(site: str) -> None:
    async with state_world.served(operator_books.open_books()) as url:
        status, _ = await status_of(url, Sec_Fetch_Site=site, Origin="https://evil.example")
        own, _ = await status_of(url, Sec_Fetch_Site="same-origin")

    assert (status, own) == (403, 200)


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/v1/cards", "/api/v1/nodes/x", "/nothing"])
async def test_every_answer_forbids_what_no_page_of_ours_needs(path: str) -> None:
    async with (
        state_world.served(operator_books.open_books()) as url,
        aiohttp.ClientSession() as session,
        session.get(url + path, headers={"Origin": "https://evil.example"}) as answer,
    ):
        headers = answer.headers

    for name, value in guard.HEADERS.items():
        assert headers[name] == value
    assert not any(name.lower().startswith("access-control-") for name in headers)


def test_the_page_names_no_other_host_and_has_no_script_in_it() -> None:
    for name, file in files.read_all().items():
        text = file.content.decode()
        hosts = set(re.findall(r"https?://[\w.]+", text))
        assert hosts <= {"http://www.w3.org"}, name  # the namespace of SVG
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|javascript:|\bstyle=", text), name
        assert "innerHTML" not in text, name


async def test_a_file_is_asked_for_by_its_name_only() -> None:
    async with state_world.served(operator_books.open_books()) as url:
        for path in ("/..%2fserver.py", "/%2e%2e/server.py", "/server.py", "/page/app.js"):
            status, _ = await status_of(url, path)
            assert status == 404


async def test_a_page_that_listens_at_another_loopback_address_is_read_there() -> None:
    async with state_world.served(operator_books.open_books()) as url:
        assert (await status_of(url, Host="127.0.0.2:9396"))[0] == 200


# Tokens.


async def test_only_who_may_list_nodes_and_pods_may_read() -> None:
    kube = Reviewer(
        {"both": {"list nodes", "list pods"}, "pods-only": {"list pods"}, "none": set()}
    )
    asks = access.Access(kube, turned_clock.TurnedClock())
    async with state_world.served(operator_books.open_books(), asks=asks) as url:
        answers = {
            token: await status_of(url, Authorization=f"Bearer {token}")
            for token in ("both", "pods-only", "none", "unknown")
        }
        without, _ = await status_of(url)
        basic, _ = await status_of(url, Authorization="Basic both")
        page, _ = await status_of(url, "/")

    assert {token: status for token, (status, _) in answers.items()} == {
        "both": 200,
        "pods-only": 403,
        "none": 403,
        "unknown": 401,
    }
    assert "pods-only may not list nodes" in answers["pods-only"][1]
    assert (without, basic) == (401, 401)
    assert page == 200  # it holds nothing of the cluster, and asks for the token


async def test_an_answer_about_a_token_is_remembered_for_a_minute() -> None:
    kube, time = Reviewer({"both": {"list nodes", "list pods"}}), turned_clock.TurnedClock()
    asks = access.Access(kube, time)

    verdicts = await asyncio.gather(*(asks.verdict("Bearer both") for _ in range(20)))
    assert {verdict.status for verdict in verdicts} == {200}
    assert kube.asked == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]

    kube.rights["both"] = set()
    time.turn(access.GRANTED_S - 1)
    assert (await asks.verdict("Bearer both")).status == 200
    time.turn(2)
    assert (await asks.verdict("Bearer both")).status == 403


async def test_a_refusal_is_remembered_more_shortly() -> None:
    kube, time = Reviewer({}), turned_clock.TurnedClock()
    asks = access.Access(kube, time)

    assert (await asks.verdict("Bearer new")).status == 401
    kube.rights["new"] = {"list nodes", "list pods"}
    assert (await asks.verdict("Bearer new")).status == 401
    time.turn(access.REFUSED_S + 1)
    assert (await asks.verdict("Bearer new")).status == 200


async def test_an_api_server_that_cannot_be_asked_lets_nobody_in_and_is_asked_again() -> None:
    kube = Reviewer({"both": {"list nodes", "list pods"}})
    kube.is_away = True
    asks = access.Access(kube, turned_clock.TurnedClock())

    assert (await asks.verdict("Bearer both")).status == 503
    kube.is_away = False
    assert (await asks.verdict("Bearer both")).status == 200


async def test_tokens_without_end_use_no_memory_without_end() -> None:
    asks = access.Access(Reviewer({}), turned_clock.TurnedClock())

    for number in range(access.MOST_TOKENS + 50):
        await asks.verdict(f"Bearer {number}")

    assert len(asks._known) == access.MOST_TOKENS
    assert asks._asking == {}
    assert (await asks.verdict("Bearer " + "x" * (access.LONGEST_TOKEN + 1))).status == 401


class Stuck(Reviewer):
    """Answers about one token only; all others wait for ever."""

    async def create(self, path: str, body: Any) -> dict[str, Any]:
        if body["spec"].get("token", "both") != "both":
            await asyncio.Event().wait()
        return await super().create(path, body)


async def test_unknown_tokens_of_one_address_keep_nobody_else_waiting() -> None:
    asks = access.Access(Stuck({"both": {"list nodes", "list pods"}}), turned_clock.TurnedClock())
    junk = [
        asyncio.create_task(asks.verdict(f"Bearer junk-{number}", client="10.0.0.1"))
        for number in range(60)
    ]
    try:
        await settled()
        async with asyncio.timeout(2):
            assert (await asks.verdict("Bearer both", client="10.0.0.2")).status == 200
    finally:
        for one in junk:
            one.cancel()
        await asyncio.gather(*junk, return_exceptions=True)
    assert (asks._asking, asks._rooms) == ({}, {})


@pytest.mark.parametrize("limit", ["QUESTION_S", "WAIT_S"])
async def test_an_api_server_that_does_not_answer_is_waited_for_not_long(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(access, limit, 0.01)
    asks = access.Access(Stuck({}), turned_clock.TurnedClock())

    async with asyncio.timeout(2):
        verdict = await asks.verdict("Bearer new")

    assert verdict.status == 503
    assert "has not said in time" in verdict.sentence
    assert asks._known == {}  # asked again the next time


@pytest.mark.parametrize("tls", [None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)])
async def test_beyond_loopback_nothing_is_served_without_certificate_and_tokens(
    tls: ssl.SSLContext | None,
) -> None:
    desk = routes.Desk(
        books=operator_books.open_books(),
        clock=turned_clock.TurnedClock(),
        facts=dict,
        answered_s=lambda: None,
    )

    with pytest.raises(model_errors.SettingsError, match=r"--state-bind 127\.0\.0\.1:PORT"):
        await server.start(desk, listen.Address(host="0.0.0.0", port=0), tls=tls)  # noqa: S104
