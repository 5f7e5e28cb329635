"""The whole chain on a real node: webhook, scheduler, operator, agent, kubelet, container.

Loaded as a plugin: ``pytest_plugins = ["support.node_chain"]``. One operator and one agent
serve all tests in ``tests/real_node`` that ask for ``chain``; each test finds the agent
without switches and with two healthy cards.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import pytest_asyncio

from support import api_audit, ledger_page, waiting
from support import real_node as on_node
from vgpu_operator.cli import grounds
from vgpu_operator.cli import stack as cli_stack
from vgpu_operator.cli.cluster import audit
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.cli.cluster.real_node import rights
from vgpu_operator.cli.cluster.real_node.node import RealNode
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import paths
from vgpu_operator.node_agent import pod_resources

Json = dict[str, Any]

RESOURCE = "nvidia.com/gpu"
DEVICE_IDS = "vgpu-operator.io/device-ids"
PHASE = "hami.io/bind-phase"
PAST_THE_WEBHOOK = {"hami.io/webhook": "ignore"}
"""Label of a pod that the webhook does not see."""

SLOW_CALL = "told to be slow"
"""What an agent with ``--slow`` writes when a call comes."""

CARD_MEMORY_MIB = 24576
SLOTS = 10
ENDED = ("Succeeded", "Failed")
LONG_S = 60.0
LOOK_AGAIN_S = 0.1


def asking(name: str, memory_mib: int, *, cores: int = 10, count: int = 1, **fields: Any) -> Json:
    """Return a shell container that asks for slices of cards."""
    limits = {
        RESOURCE: str(count),
        "nvidia.com/gpumem": str(memory_mib),
        "nvidia.com/gpucores": str(cores),
    }
    return on_node.container(name, resources={"limits": limits}, **fields)


def by_passed(name: str, node: RealNode, *, count: int = 1) -> Json:
    """Return a pod that asks the kubelet for cards and comes past webhook and scheduler."""
    main = on_node.container("main", resources={"limits": {RESOURCE: str(count)}})
    made = on_node.pod(name, main, nodeName=node.name, restartPolicy="Never")
    made["metadata"]["labels"] = dict(PAST_THE_WEBHOOK)
    return made


def containers(pod: Json) -> list[Json]:
    """Return a pod's containers, init containers first: the order of the annotation."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def promised_environment(pod: Json) -> dict[str, dict[str, str]]:
    """Return what the pod's annotation says that each container that asks for cards must see."""
    segments = api_audit.shares(api_audit.annotations(pod)[api_audit.ALLOCATED])
    names = [container["name"] for container in containers(pod)]
    assert len(segments) == len(names)
    return {
        name: {
            "NVIDIA_VISIBLE_DEVICES": ",".join(card for card, _, _ in shares),
            "CUDA_DEVICE_SM_LIMIT": str(shares[0][2]),
            **{
                f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{memory_mib}m"
                for place, (_, memory_mib, _) in enumerate(shares)
            },
        }
        for name, shares in zip(names, segments, strict=True)
        if shares
    }


def served_ids(pod: Json) -> dict[str, list[str]]:
    """Return the device ids that the agent notes for each container of this very pod."""
    text = api_audit.annotations(pod).get(DEVICE_IDS)
    note: Json = json.loads(text) if text else {}
    containers: dict[str, list[str]] = note.get("containers", {})
    return containers if note.get("uid") == pod["metadata"]["uid"] else {}


def runs_of(pod: Json) -> list[tuple[str, int]]:
    """Return id and number of restarts of each container: others after every start."""
    statuses = pod["status"]["containerStatuses"]
    return [(one.get("containerID", ""), one["restartCount"]) for one in statuses]


def slice_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a container's environment says of cards."""
    wanted = ("CUDA_DEVICE_MEMORY_LIMIT_", "CUDA_DEVICE_SM_LIMIT", "NVIDIA_VISIBLE_DEVICES")
    return {name: text for name, text in environment.items() if name.startswith(wanted)}


class Chain:
    """Handles on everything, and waits for conditions."""

    def __init__(
        self,
        plane: ControlPlane,
        node: RealNode,
        kube: kube_client.KubeClient,
        replica: cli_stack.Replica,
    ) -> None:
        self.plane = plane
        self.node = node
        self.kube = kube
        self.replica = replica
        self._cards_file = node.folder / "cards.yaml"
        self._healthy_cards = 0
        self._switches: tuple[str, ...] = ()
        self.agent = self._made_agent()

    # The agent and its cards.

    async def start_agent(self, *switches: str) -> None:
        """Start the agent with these switches, in place of the one that runs."""
        await self.agent.stop()
        self._switches = switches
        self.agent = self._made_agent()
        self.agent.start()
        await self.until_serving()

    async def restore(self) -> None:
        """Have an agent that runs without switches, and two healthy cards."""
        self._write_cards(2)
        if self._switches or not self.agent.is_running:
            await self.start_agent()
        else:
            await self.until_serving()

    async def put_cards(self, count: int, *, sick: tuple[int, ...] = ()) -> None:
        """Give the node so many cards, some of them unhealthy, and wait until all know."""
        self._write_cards(count, sick=sick)
        await self.until_serving()

    async def until_serving(self) -> None:
        """Wait until kubelet and operator count the slots of the healthy cards of this agent."""
        node = self.node.name
        slots = self._healthy_cards * SLOTS

        async def listed() -> bool:
            self.agent.check_running()
            said = [line for line in self.agent.log_tail(1000).splitlines() if " healthy=" in line]
            return bool(said) and said[-1].endswith(f" healthy={slots}")

        async def counted() -> bool:
            return await self.allocatable() == slots

        async def known() -> bool:
            found = (await self.state(f"nodes/{node}"))["node"]
            return bool(found["usableCards"] == self._healthy_cards)

        await self.until(f"the agent has listed {slots} healthy devices", listed)
        await self.until(f"{node} offers {slots} of {RESOURCE}", counted)
        await self.until(f"the operator uses {self._healthy_cards} cards of {node}", known)

    def agent_log(self) -> str:
        """Return all that agents have written."""
        return self.agent.log_file.read_text(errors="replace")

    def agent_requests(self) -> list[audit.AuditedRequest]:
        """Return what agents have asked of the API server so far."""
        return [
            one
            for one in audit.read_requests(self.plane.audit_log)
            if one.user == rights.AGENT_USER
        ]

    def card(self, index: int) -> str:
        """Return the id of a card."""
        return f"GPU-{self.node.name}-{index}"

    def _write_cards(self, count: int, *, sick: tuple[int, ...] = ()) -> None:
        described: Json = {"cards": count, "memory": CARD_MEMORY_MIB, "slots": SLOTS}
        if sick:
            described["failures"] = {"unhealthy": [self.card(index) for index in sick]}
        # A new file takes the old one's name: the agent never reads half of it.
        new = self._cards_file.with_suffix(".new")
        new.write_text(json.dumps(described))
        new.replace(self._cards_file)
        self._healthy_cards = count - len(sick)

    def _made_agent(self) -> Component:
        return cli_stack.node_agent(self.node, cards=self._cards_file, arguments=self._switches)

    # What everybody says.

    async def allocatable(self) -> int:
        """Return how many slots the kubelet offers."""
        status = (await self.kube_node())["status"]
        return int(status.get("allocatable", {}).get(RESOURCE, 0))

    async def kube_node(self) -> Json:
        """Return the Node."""
        return await self.kube.get(paths.node(self.node.name))

    async def state(self, what: str) -> Json:
        """Return an answer of the operator's state API."""
        body: Json = json.loads(await _fetch(f"{self.replica.state_url}/api/v1/{what}"))
        return body

    async def pods(self) -> list[Json]:
        """Return the node's pods that ask for cards and have not ended."""
        found, _ = await self.kube.list(paths.PODS)
        return [
            pod
            for pod in found
            if pod["spec"].get("nodeName") == self.node.name
            and pod["status"]["phase"] not in ENDED
            and any(_count(container) for container in containers(pod))
        ]

    async def locks(self) -> dict[str, str]:
        """Return the lock text of every locked node."""
        return api_audit.locks((await self.kube.list(paths.NODES))[0])

    async def held(self) -> dict[tuple[str, str, str], frozenset[str]]:
        """Return the device ids of each container, as the kubelet tells; of those that have any."""
        answer = await pod_resources.held(self.node.pod_resources_socket, resource=RESOURCE)
        return {(one.namespace, one.pod, one.container): one.ids for one in answer if one.ids}

    async def disagreements(self) -> list[str]:
        """Return a sentence for everything in which two of the parties differ."""
        pods, held = await self.pods(), await self.held()
        nodes = (await self.kube.list(paths.NODES))[0]
        found = [f"{node} is locked: {text}" for node, text in api_audit.locks(nodes).items()]
        noted = {place: ids for pod in pods for place, ids in _noted(pod).items()}
        if held != noted:
            found.append(f"the kubelet counts {held}, the annotations say {noted}")
        for pod in pods:
            phase = api_audit.annotations(pod).get(PHASE)
            if phase != "success":
                found.append(f"{pod['metadata']['name']} is {phase}")
        ledger = ledger_page.read(await _fetch(f"{self.replica.metrics_url}/metrics"))
        promised = api_audit.promised(nodes, [_without_passed(pod) for pod in pods])
        if ledger != promised:
            found.append(f"the ledger holds {ledger}, the annotations say {promised}")
        return found + api_audit.violations(nodes, pods)

    async def until_all_agree(self) -> None:
        """Wait until kubelet, annotations and ledger say the same, and no node is locked."""
        found: list[str] = []

        async def agreed() -> bool:
            found[:] = await self.disagreements()
            return not found

        try:
            await self.until("kubelet, annotations and ledger agree", agreed)
        except TimeoutError as fault:
            raise AssertionError(f"{fault}: {'; '.join(found)}") from fault

    async def slices(self, pod: Json) -> dict[str, dict[str, str]]:
        """Return what each container of a pod that asks for cards has printed of its slice."""
        where = pod["metadata"]
        return {
            container["name"]: slice_of(
                await self.node.container_env(
                    where["namespace"], where["name"], container["name"], limit_s=LONG_S
                )
            )
            for container in containers(pod)
            if _count(container)
        }

    async def assert_sees_its_slices(self, namespace: str, name: str) -> Json:
        """Wait until a pod runs; its containers see what its annotation names. Return it."""
        pod = await self.running(namespace, name)
        assert await self.slices(pod) == promised_environment(pod)
        return pod

    # Waiting.

    async def running(self, namespace: str, name: str) -> Json:
        """Wait until a pod runs; one that has ended instead is told."""
        pod = await self.started_or_refused(namespace, name)
        assert pod["status"]["phase"] == "Running", pod["status"]
        return pod

    async def all_running(self, namespace: str, count: int, *, limit_s: float) -> list[Json]:
        """Wait until a namespace has so many pods and all of them run, and return them."""

        async def there() -> list[Json] | None:
            found, _ = await self.kube.list(paths.namespaced(namespace, "pods"))
            ended = [pod for pod in found if pod["status"]["phase"] in ENDED]
            assert not ended, ended[0]["status"]
            running = [pod for pod in found if pod["status"]["phase"] == "Running"]
            return running if len(running) == count else None

        found: list[Json] = await self.until(
            f"{count} pods of {namespace} run", there, limit_s=limit_s
        )
        return found

    async def started_or_refused(self, namespace: str, name: str) -> Json:
        """Wait until a pod runs or has failed, and return it."""

        async def there() -> Json | None:
            found = await self.pod(namespace, name)
            return found if found["status"]["phase"] in ("Running", *ENDED) else None

        found: Json = await self.until(f"{namespace}/{name} runs or has failed", there)
        return found

    async def until_unplaced(self, namespace: str, name: str) -> str:
        """Wait until the scheduler has found no place for a pod, and return why."""

        async def refused() -> str:
            found = await self.pod(namespace, name)
            conditions = found["status"].get("conditions", ())
            return next((str(one["message"]) for one in conditions if _is_refusal(one)), "")

        return str(await self.until(f"{namespace}/{name} finds no place", refused))

    async def until_gone(self, namespace: str, name: str) -> None:
        """Wait until there is no such pod."""

        async def gone() -> bool:
            found, _ = await self.kube.list(paths.namespaced(namespace, "pods"))
            return name not in [pod["metadata"]["name"] for pod in found]

        await self.until(f"{namespace}/{name} is gone", gone)

    async def until_bound(self, namespace: str, name: str) -> Json:
        """Wait until a pod is bound, and return it."""

        async def bound() -> Json | None:
            found = await self.pod(namespace, name)
            return found if found["spec"].get("nodeName") else None

        found: Json = await self.until(f"{namespace}/{name} is bound", bound)
        return found

    async def begin_call(self, namespace: str, manifest: Json) -> None:
        """Create a pod, and wait until the kubelet has asked the agent, which is slow, for it."""
        before = self.agent_log().count(SLOW_CALL)
        await on_node.create(self.kube, namespace, manifest)

        async def called() -> bool:
            return self.agent_log().count(SLOW_CALL) > before

        await self.until("the kubelet has called Allocate", called)

    async def until_start_is_refused(self, namespace: str, name: str) -> str:
        """Wait until the agent has refused to let a container of a pod start, and return why."""

        async def refusal() -> str:
            found = (await self.pod(namespace, name))["status"]
            states = [one["state"] for one in found.get("containerStatuses", ())]
            said = [one["waiting"].get("message", "") for one in states if "waiting" in one]
            return next((text for text in said if "PreStartContainer" in text), "")

        return str(await self.until(f"the start of {namespace}/{name} is refused", refusal))

    async def end_container(self, namespace: str, name: str, container: str) -> None:
        """End a container as if it had died by itself, whether a kubelet is there or not."""
        statuses = (await self.pod(namespace, name))["status"]["containerStatuses"]
        (found,) = [one["containerID"] for one in statuses if one["name"] == container]
        task = found.removeprefix("containerd://")
        await self.node.ctr("tasks", "kill", "--signal", "SIGKILL", task)

        async def ended() -> bool:
            listed = (await self.node.ctr("tasks", "list")).splitlines()
            return not [line for line in listed if task in line and "RUNNING" in line]

        await self.until(f"container {container} of {namespace}/{name} has ended", ended)

    async def pod(self, namespace: str, name: str) -> Json:
        return await self.kube.get(paths.pod(namespace, name))

    async def create(self, namespace: str, name: str, *parts: Json, **spec: Any) -> None:
        """Create a pod of these containers."""
        await on_node.create(self.kube, namespace, on_node.pod(name, *parts, **spec))

    async def node_events(self) -> dict[str, Json]:
        """Return the events about the node by name."""
        events, _ = await self.kube.list("/api/v1/events")
        return {
            one["metadata"]["name"]: one
            for one in events
            if one["involvedObject"].get("name") == self.node.name
        }

    async def next_event(self, reason: str, *, after: Mapping[str, Json]) -> Json:
        """Wait for an event about the node that is not among those, and return it."""

        async def seen() -> Json | None:
            events = await self.node_events()
            new = (one for name, one in events.items() if name not in after)
            return next((one for one in new if one["reason"] == reason), None)

        found: Json = await self.until(f"an event {reason} about {self.node.name}", seen)
        return found

    async def until(
        self, what: str, condition: Callable[[], Awaitable[Any]], *, limit_s: float = LONG_S
    ) -> Any:
        """Ask until the answer is truthy, and return it."""
        return await waiting.until(what, condition, limit_s=limit_s, every_s=LOOK_AGAIN_S)


def _is_refusal(condition: Mapping[str, Any]) -> bool:
    return (condition["type"], condition["status"]) == ("PodScheduled", "False")


def _count(container: Json) -> int:
    return int(container.get("resources", {}).get("limits", {}).get(RESOURCE, 0))


def _passing(pod: Json) -> list[str]:
    """Return the init containers that end before the others start."""
    found = pod["spec"].get("initContainers", ())
    return [one["name"] for one in found if one.get("restartPolicy") != "Always"]


def _without_passed(pod: Json) -> Json:
    """Return a pod that runs without what its annotation promised to init containers."""
    metadata = pod["metadata"]
    annotations = dict(metadata["annotations"])
    segments = annotations.get(api_audit.ALLOCATED, "").split(";")
    passed = _passing(pod)
    for place, container in enumerate(containers(pod)[: len(segments)]):
        if container["name"] in passed:
            segments[place] = ""
    annotations[api_audit.ALLOCATED] = ";".join(segments)
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def _noted(pod: Json) -> dict[tuple[str, str, str], frozenset[str]]:
    """Return the ids that a pod's annotation names, of containers that the kubelet lists."""
    where = pod["metadata"]
    return {
        (where["namespace"], where["name"], name): frozenset(ids)
        for name, ids in served_ids(pod).items()
        if name not in _passing(pod)
    }


async def _fetch(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def whole_chain(real_plane: ControlPlane, real_node: RealNode) -> AsyncIterator[Chain]:
    """Run operator, scheduler and agent around the real node."""
    connected = await kube_client.KubeClient.connect(kubeconfig=str(real_plane.kubeconfig))
    async with connected as kube:
        ground = grounds.LocalGround(real_plane)
        async with cli_stack.running(ground, kube) as (stack, replica):
            made = Chain(real_plane, real_node, kube, replica)
            try:
                yield made
            finally:
                await made.agent.stop()
                await stack.withdraw(kube)


@pytest_asyncio.fixture
async def chain(whole_chain: Chain) -> Chain:
    """Give the chain as every test wants to find it."""
    await whole_chain.restore()
    return whole_chain
