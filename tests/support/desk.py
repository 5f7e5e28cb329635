"""The operator's shell on a fake API server, wired as in the real one."""

from collections.abc import Mapping

from support import operator_books
from support.fake_kube import FakeKube
from support.operator_books import LOCK, ONE_CARD
from support.turned_clock import TurnedClock
from vgpu_operator.extender import routes
from vgpu_operator.flows import effects, reading
from vgpu_operator.kube import binder, events, intake, perform, waiting
from vgpu_operator.model import records

NODE_PATH = "/api/v1/nodes/node-a"
REGISTER = "hami.io/node-nvidia-register"


class Shell:
    """Books, waits, performer, intake and binder; ``show`` is the watch."""

    def __init__(self, **values: object) -> None:
        self.kube = FakeKube()
        self.clock = TurnedClock()
        self.books = operator_books.open_books(**values)
        self.waits = waiting.Waiting(self.books, self.clock)
        self.sink = events.EventSink(
            self.kube,
            self.clock,
            leads=lambda: self.books.leader,
            may_write=lambda: self.books.leader,
            on_failure=lambda *_: None,
            on_drop=lambda _: None,
            message=lambda event, now: event.message,
        )
        self.failed: list[effects.EffectFailed] = []
        self.performer = perform.Performer(
            self.kube,
            self.sink,
            decode_pod=lambda raw: reading.decode_pod(self.books, raw),
            may_write=lambda: self.books.leader,
            wait=self.waits.change,
            tell=lambda news: self.intake.react(news),
            on_failure=lambda _, fault: self.failed.append(fault),
        )
        self.audits: list[int] = []
        self.intake = intake.Intake(
            self.books,
            self.kube,
            self.clock,
            performer=self.performer,
            waits=self.waits,
            on_audit=self.audits.append,
        )
        self.binder = binder.Binder(
            self.books,
            self.clock,
            performer=self.performer,
            waits=self.waits,
            observe=lambda phase, seconds: self._observe_phase("bind", phase, seconds),
        )
        self.not_serving = ""
        self.observed: list[tuple[str, str]] = []
        self.phases: list[tuple[str, str, float]] = []
        self.rejected: dict[str, int] = {}
        self.refused: list[records.PodRecord] = []

    def desk(self) -> routes.Desk:
        """Return what the extender's routes need."""
        return routes.Desk(
            books=self.books,
            clock=self.clock,
            intake=self.intake,
            binder=self.binder,
            may_serve=self._may_serve,
            observe=lambda verb, outcome, _: self.observed.append((verb, outcome)),
            reject=self._reject,
            refused=self.refused.append,
            observe_phase=self._observe_phase,
        )

    async def _may_serve(self) -> str:
        return self.not_serving

    def _observe_phase(self, verb: str, phase: str, seconds: float) -> None:
        self.phases.append((verb, phase, seconds))

    def _reject(self, counts: Mapping[str, int]) -> None:
        self.rejected.update(counts)

    def show(self, path: str, kind: str = "MODIFIED") -> None:
        """Let the watch show an object as it is now."""
        take_in = self.intake.node_event if "/nodes/" in path else self.intake.pod_event
        if "/resourcequotas/" in path:
            take_in = self.intake.quota_event
        take_in(kind, self.kube.objects[path])

    def put_node(self, name: str = "node-a", *, register: str = ONE_CARD, lock: str = "") -> str:
        """Have a node and show it; return its path."""
        path = f"/api/v1/nodes/{name}"
        notes = {REGISTER: register, "hami.io/node-handshake": operator_books.FRESH_STAMP}
        if lock:
            notes[LOCK] = lock
        self.kube.put(
            path,
            {
                "metadata": {"annotations": notes},
                "status": {"allocatable": {"nvidia.com/gpu": "10"}},
            },
        )
        self.show(path)
        return path

    def put_pod(self, name: str, *, mem: int = 1000, **more: object) -> str:
        """Have an unbound pod that asks for one card and show it; return its path."""
        path = f"/api/v1/namespaces/team-a/pods/{name}"
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mem)}
        spec = {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        }
        self.kube.put(
            path,
            {
                "metadata": {"uid": f"uid-of-{name}"},
                "spec": spec | more,
                "status": {"phase": "Pending"},
            },
        )
        self.show(path)
        return path

    def notes(self, path: str) -> dict[str, str]:
        """Return an object's annotations as the API server has them."""
        found: dict[str, str] = self.kube.objects[path]["metadata"].get("annotations", {})
        return found
