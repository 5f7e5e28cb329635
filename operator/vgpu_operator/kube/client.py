"""Every outbound API call.

``kubernetes-asyncio`` reads the configuration (kubeconfig, service account,
exec plug-ins) and says how to authenticate; the requests themselves are ours:
raw JSON in, raw JSON out, no model objects, because a scheduler's hot path
must not pay for them.
"""

import asyncio
import contextlib
import datetime
import email.utils
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import aiohttp
import kubernetes_asyncio.client as k8s_client
import kubernetes_asyncio.config as k8s_config
import orjson
import yaml
from kubernetes_asyncio.config import config_exception

from vgpu_operator.kube import errors
from vgpu_operator.kube import kubeconfig as kubeconfigs
from vgpu_operator.kube.kubeconfig import ConfigurationError as ConfigurationError

Json: TypeAlias = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"

REQUEST_LIMIT_S = 30.0
"""How long one ordinary request may take."""

CONNECT_LIMIT_S = 5.0

WATCH_SILENCE_LIMIT_S = 120.0
"""A watch that says nothing for so long is given up; bookmarks come each minute."""

ENDING = "403 namespace ending"
"""What is told as the status where no right is missing, but the namespace is ending."""

MAX_CONNECTIONS = 200
LIST_PAGE = 1000


async def load_configuration(
    *, kubeconfig: str | None = None, context: str | None = None
) -> k8s_client.Configuration:
    """Return how to reach the API server.

    A named kubeconfig is used as it is; without one the pod's service account
    is tried, then the user's default kubeconfig.

    Raises:
        ConfigurationError: one sentence with the place and the cause.
    """
    configuration = k8s_client.Configuration()
    if kubeconfig is None and context is None:
        with contextlib.suppress(config_exception.ConfigException):
            k8s_config.load_incluster_config(  # type: ignore[no-untyped-call]  # not annotated
                client_configuration=configuration
            )
            return configuration
    where = kubeconfigs.require(kubeconfig)
    try:
        await k8s_config.load_kube_config(
            config_file=where, context=context, client_configuration=configuration
        )
    except (
        config_exception.ConfigException,
        yaml.YAMLError,
        OSError,
        TypeError,
        ValueError,  # bad base64, text that is no UTF-8
    ) as fault:
        cause = " ".join(str(fault).split())
        raise ConfigurationError(f"cannot use {where}: {cause}") from fault
    return configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How to reach an API server; ``token`` may be refreshed at any time."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    key_path: str | None
    token: str | None = field(default=None, repr=False)


class KubeClient:
    """One connection pool to one API server.

    ``on_answer`` is told the verb, the path, the status (0 = no answer;
    ``ENDING``) and the seconds of every request.
    """

    def __init__(self, configuration: k8s_client.Configuration) -> None:
        self._configuration = configuration
        self.on_answer: Callable[[str, str, str, float], None] = _tell_nobody
        self._base = str(configuration.host).rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=_tls(configuration)),
            timeout=aiohttp.ClientTimeout(total=REQUEST_LIMIT_S, sock_connect=CONNECT_LIMIT_S),
            read_bufsize=2**21,
            headers={"User-Agent": "vgpu-operator", "Accept": "application/json"},
        )

    @classmethod
    async def connect(cls, *, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """Return a client; nothing is sent yet.

        Raises:
            ConfigurationError: one sentence with the place and the cause.
        """
        configuration = await load_configuration(kubeconfig=kubeconfig, context=context)
        try:
            return cls(configuration)
        except OSError as fault:  # ssl.SSLError is one
            where = kubeconfig or "the configuration"
            raise ConfigurationError(
                f"a certificate or key of {where} cannot be used: {fault}"
            ) from fault

    @property
    def server_url(self) -> str:
        """Address of the API server."""
        return self._base

    async def credentials(self) -> Credentials:
        """Return how to reach the server, for a library that makes its own connections."""
        configuration = self._configuration
        token = await configuration.get_api_key_with_prefix("BearerToken")
        return Credentials(
            server=self._base,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            key_path=configuration.key_file,
            token=token.removeprefix("Bearer ") if token else None,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        limit_s: float | None = None,
    ) -> Json:
        """Send one request and return the JSON object of the answer.

        Raises:
            errors.ApiError: the class says what kind of refusal it was.
        """
        content, answer = await self._exchange(
            verb, path, body=body, params=params, content_type=content_type, limit_s=limit_s
        )
        value = _decoded(content, f"{verb} {path}: {answer.status}") if content else {}
        return value if isinstance(value, dict) else {"items": value}

    async def text(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """Read something that is no JSON: a container's log."""
        content, _ = await self._exchange("GET", path, params=params)
        return content.decode("utf-8", "replace")

    async def server_time(self) -> datetime.datetime | None:
        """Return the API server's time of day in whole seconds; None where it does not say."""
        _, answer = await self._exchange("GET", "/version", limit_s=CONNECT_LIMIT_S)
        try:
            told = email.utils.parsedate_to_datetime(answer.headers.get("Date", ""))
        except ValueError:
            return None
        return told if told.tzinfo is not None else told.replace(tzinfo=datetime.UTC)

    async def _exchange(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        limit_s: float | None = None,
    ) -> tuple[bytes, aiohttp.ClientResponse]:
        """Send one request and return what a good answer holds."""
        headers = await self._headers()
        data = None
        if body is not None:
            data = orjson.dumps(body)
            headers["Content-Type"] = content_type
        timeout = (
            aiohttp.ClientTimeout(total=limit_s, sock_connect=CONNECT_LIMIT_S)
            if limit_s is not None
            else None
        )
        begun, status = time.perf_counter(), "0"
        try:
            async with self._session.request(
                verb,
                self._base + path,
                data=data,
                params=params,
                headers=headers,
                timeout=timeout or self._session.timeout,
            ) as answer:
                content = await answer.read()
                status = str(answer.status)
                if answer.status >= 400:
                    raise errors.from_answer(
                        answer.status,
                        content,
                        verb=verb,
                        path=path,
                        retry_after=answer.headers.get("Retry-After"),
                    )
        except errors.NamespaceEnding:
            status = ENDING
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            cause = str(fault) or type(fault).__name__
            raise errors.Unreachable(f"{verb} {self._base}{path}: {cause}") from fault
        finally:
            self.on_answer(verb, path, status, time.perf_counter() - begun)
        return content, answer

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        """Read one object."""
        return await self.request("GET", path, params=params)

    async def create(self, path: str, body: Any) -> Json:
        """Create one object in the collection at ``path``."""
        return await self.request("POST", path, body=body)

    async def patch(
        self,
        path: str,
        body: Any,
        *,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        """Merge a patch into one object; its ``metadata.resourceVersion`` is a precondition."""
        return await self.request("PATCH", path, body=body, content_type=MERGE_PATCH, params=params)

    async def replace(self, path: str, body: Any) -> Json:
        """Replace one object."""
        return await self.request("PUT", path, body=body)

    async def delete(
        self,
        path: str,
        *,
        grace_s: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Json:
        """Delete one object, only if it still has that UID and version, where given."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in wanted.items() if value is not None}
        if preconditions:
            options["preconditions"] = preconditions
        return await self.request("DELETE", path, body=options)

    async def pages(
        self, path: str, *, params: Mapping[str, str] | None = None, page: int = LIST_PAGE
    ) -> AsyncIterator[Json]:
        """List a collection page by page; each page is a raw List object."""
        query = dict(params or {})
        query["limit"] = str(page)
        while True:
            answer = await self.request("GET", path, params=query)
            yield answer
            token = answer.get("metadata", {}).get("continue")
            if not token:
                return
            query["continue"] = token

    async def list(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> tuple[list[Json], str]:
        """Return all items of a collection and the list's resourceVersion."""
        items: list[Json] = []
        version = ""
        async for answer in self.pages(path, params=params):
            items.extend(answer.get("items") or ())
            version = version or answer["metadata"]["resourceVersion"]
        return items, version

    async def watch(
        self, path: str, *, resource_version: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[Json]:
        """Yield watch events until the stream ends.

        Raises:
            errors.Expired: the version is too old; list again.
        """
        query = dict(params or {})
        query |= {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_LIMIT_S, sock_read=WATCH_SILENCE_LIMIT_S
        )
        try:
            async with self._session.get(
                self._base + path, params=query, headers=await self._headers(), timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise errors.from_answer(
                        answer.status, await answer.read(), verb="WATCH", path=path
                    )
                rest = b""
                async for chunk, _ in answer.content.iter_chunks():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield _watch_event(line, path)
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            cause = str(fault) or type(fault).__name__
            raise errors.Unreachable(f"WATCH {self._base}{path}: {cause}") from fault

    async def wait_until_reachable(self, *, pause_s: float = 1.0) -> AsyncIterator[errors.ApiError]:
        """Ask until the API server answers; yield each failure so that the caller can say so."""
        while True:
            try:
                await self.request("GET", "/version", limit_s=CONNECT_LIMIT_S)
            except errors.ApiError as fault:
                yield fault
                await asyncio.sleep(pause_s)
            else:
                return

    async def _headers(self) -> dict[str, str]:
        """Return the authentication headers, refreshed where the configuration says how."""
        configuration = self._configuration
        headers: dict[str, str] = {}
        token = await configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = token
        elif configuration.username and configuration.password:
            headers["Authorization"] = configuration.get_basic_auth_token()
        return headers


def _tell_nobody(_verb: str, _path: str, _status: str, _seconds: float) -> None:
    """Default of ``on_answer``."""


def _tls(configuration: k8s_client.Configuration) -> ssl.SSLContext | bool:
    """Return the TLS settings that the configuration asks for."""
    if not str(configuration.host).startswith("https:"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _watch_event(line: bytes, path: str) -> Json:
    """Return one event of a watch stream, or raise what an ERROR event stands for."""
    event = _decoded(line, f"WATCH {path}:")
    raw = event.get("object") if isinstance(event, dict) else None
    if not isinstance(event, dict) or not isinstance(raw, dict):
        raise errors.ServerFault(f"WATCH {path}: an event without an object")
    if event.get("type") == "ERROR":
        code = raw.get("code")
        raise errors.from_answer(
            code if isinstance(code, int) else 500, orjson.dumps(raw), verb="WATCH", path=path
        )
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
        raise errors.ServerFault(f"WATCH {path}: an event whose object has no version")
    return event


def _decoded(content: bytes, what: str) -> Any:
    """Return what a successful answer says; something that is no API server may say anything."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as fault:
        shown = content[:80].decode("utf-8", "replace")
        raise errors.ServerFault(f"{what} the answer is no JSON: {shown!r}") from fault
