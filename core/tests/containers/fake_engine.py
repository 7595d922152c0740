"""An engine in memory for `starforge.containers.engine.Engine`: virtual time, and faults where a test asks for them.

`FakeDaemon` is the engine with its machine; `FakeEngine` is what one process of ours holds of it. Nothing moves by
itself: every call takes a moment of virtual time, and a test lets more of it pass. The thread that made a `FakeEngine`
drives it; other threads are the host's own, which wait in a stop until the driver has let it end.
"""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from starforge.containers.engine import Document, Engine, EngineError, Stream
from starforge.containers.labels import ATTEMPT, GPU_PREFIX, State
from starforge.contract.launch import RegistryLogin
from starforge.errors import BackendUnreachable

CALL_S: Final = 0.02
SLOW_START_S: Final = 0.4
LATE_S: Final = 0.1
KILLED: Final = 137
LOST_EXIT: Final = 255
NEVER_STARTED: Final = 128
NO_DRIVER: Final = 'could not select device driver "nvidia" with capabilities: [[gpu]]'
_RESTART_S: Final = 11.0
NEVER: Final = 1e12
_T = TypeVar("_T")


class ProcessKilled(BaseException):
    """The process that made this call ended in the middle of it."""


class Kind(StrEnum):
    """What befalls one call."""

    REFUSED = "refused before any effect"
    LOST = "reply lost after the effect"
    KILLED_BEFORE = "caller killed before the effect"
    KILLED_AFTER = "caller killed after the effect"
    FAILED_START = "start that fails"
    BEFORE = "another acts before the call"
    WITHIN = "another acts before the reply"


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind` befalls the call of `method` that comes after `skip` others of it.

    With `lag` an effect whose caller has left takes its time: a create appears late, a start goes on as `created`.
    """

    kind: Kind
    method: str
    skip: int = 0
    lag: bool = False
    act: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What a container's program does: ends by itself, and what TERM makes it exit with (None: nothing)."""

    ends_after_s: float = NEVER
    code: int = 0
    on_term: int | None = 143
    term_takes_s: float = 0.1


@dataclass(slots=True)
class Box:
    """One container. `shown` is its state as the listing has it: see `FakeDaemon.full`."""

    id: str
    name: str
    body: Mapping[str, Any]
    maker: "FakeEngine | None"
    appears_at: float
    late: bool = False
    state: State = State.CREATED
    shown: State = State.CREATED
    starting_until: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    ends_at: float = NEVER
    end_code: int = 0
    kill_at: float = NEVER
    code: int = 0
    error: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.body.get("Labels") or {}
        return labels

    @property
    def attempt(self) -> str:
        return self.labels.get(ATTEMPT, "")

    @property
    def gpus(self) -> frozenset[str]:
        return frozenset(value for name, value in self.labels.items() if name.startswith(GPU_PREFIX))

    @property
    def lives(self) -> bool:
        """Whether its program runs, or is about to."""
        return self.state is State.RUNNING or self.starting_until is not None

    @property
    def next_at(self) -> float:
        """When something happens to it by itself."""
        if self.starting_until is not None:
            return self.starting_until
        return min(self.ends_at, self.kill_at) if self.state is State.RUNNING else NEVER


class Watcher:
    """Told of what happens in the engine, at the moment when it does."""

    def created(self, box: Box) -> None:
        """`box` was made."""

    def started(self, box: Box) -> None:
        """The program of `box` has begun to run."""

    def removed(self, box: Box) -> None:
        """`box` is no more."""


@dataclass(slots=True)
class FakeDaemon:
    """The engine, its containers and its machine.

    While its disk is `full` the listing hears of nothing, and what it missed it learns when the engine starts anew.
    """

    seed: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    watcher: Watcher = field(default_factory=Watcher)
    now: float = 1_800_000_000.0
    engine_started_at: float = 1_800_000_000.0
    boots: int = 1
    up: bool = True
    full: bool = False
    runs: int = 1
    boxes: dict[str, Box] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)
    changed: threading.Condition = field(default_factory=threading.Condition)
    waits: dict[int, Callable[[], bool]] = field(default_factory=dict)
    chance: random.Random = field(default_factory=random.Random)
    _made: int = 0

    def __post_init__(self) -> None:
        self.chance.seed(self.seed)

    @property
    def boot(self) -> str:
        return f"boot-{self.boots}"

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, and happen what happens in them, in its order."""
        with self.changed:
            until = self.now + seconds
            while self.boxes:
                box = min(self.boxes.values(), key=lambda one: one.next_at)
                if box.next_at > until:
                    break
                self.now = max(self.now, box.next_at)
                self._step(box)
            self.now = max(self.now, until)
            self.changed.notify_all()

    def listed(self) -> list[Box]:
        """What a listing shows now."""
        return [box for box in self.boxes.values() if box.appears_at <= self.now]

    def is_waiting(self, thread: int) -> bool:
        """Whether this thread waits for an end that has not come yet."""
        with self.changed:
            return thread in self.waits and self.waits[thread]()

    def find_box(self, attempt: str) -> Box | None:
        return next((box for box in self.boxes.values() if box.attempt == attempt), None)

    def kill(self, *, live_restore: bool) -> None:
        """End the engine's process. Without `live_restore` containers end with it; a stop's own KILL is lost."""
        with self.changed:
            self.up = False
            self.runs += 1
            for box in self.boxes.values():
                box.kill_at = NEVER
                self._settle_start(box)
                if box.state is State.RUNNING and not live_restore:
                    on_term = self.job_of(box).on_term
                    self.end(box, KILLED if on_term is None else on_term)
            self.changed.notify_all()

    def start(self) -> None:
        """Start the engine's process."""
        self.advance(_RESTART_S)
        with self.changed:
            self.up = True
            self.runs += 1
            self.engine_started_at = self.now
            for box in self.boxes.values():
                box.shown = box.state

    def be_full(self, seconds: float) -> None:
        """Have no room on the disk for `seconds`."""
        self.full = True
        self.advance(seconds)
        self.full = False

    def reboot(self) -> None:
        """Every process of the machine ends; how the containers ended is lost."""
        self.kill(live_restore=True)
        with self.changed:
            for box in self.boxes.values():
                if box.state is State.RUNNING:
                    self.end(box, LOST_EXIT)
            self.boots += 1
        self.start()

    def add_by_hand(self, name: str, labels: Mapping[str, str]) -> Box:
        """A container that somebody else runs."""
        box = self.make(name, {"Labels": dict(labels), "Cmd": ["-c", "theirs"]}, None)
        box.started_at = self.now
        self._turn(box, State.RUNNING)
        return box

    def make(self, name: str, body: Mapping[str, Any], maker: "FakeEngine | None") -> Box:
        self._made += 1
        box = Box(f"{self._made:064x}", name, body, maker, appears_at=self.now)
        self.boxes[box.id] = box
        self.watcher.created(box)
        return box

    def drop(self, box: Box) -> None:
        self.watcher.removed(box)
        if box.state is State.RUNNING:
            self.end(box, KILLED)
        del self.boxes[box.id]
        self.changed.notify_all()

    def begin(self, box: Box) -> None:
        """The program runs from now on."""
        job = self.job_of(box)
        box.starting_until = None
        box.started_at, box.finished_at, box.code = self.now, None, 0
        self._turn(box, State.RUNNING)
        box.ends_at, box.end_code, box.kill_at = self.now + job.ends_after_s, job.code, NEVER
        self.watcher.started(box)

    def end(self, box: Box, code: int) -> None:
        box.code, box.finished_at = code, self.now
        self._turn(box, State.EXITED)

    def term(self, box: Box, kill_after_s: float) -> None:
        """TERM now and KILL at the deadline; an earlier deadline than one that stands overtakes it."""
        job = self.job_of(box)
        if job.on_term is not None and self.now + job.term_takes_s < box.ends_at:
            box.ends_at, box.end_code = self.now + job.term_takes_s, job.on_term
        box.kill_at = min(box.kill_at, self.now + kill_after_s)

    def job_of(self, box: Box) -> Job:
        return self.jobs.get((box.body.get("Cmd") or [""])[-1], Job())

    def _turn(self, box: Box, state: State) -> None:
        box.state = state
        if not self.full:
            box.shown = state

    def _step(self, box: Box) -> None:
        if box.starting_until is not None:
            self.begin(box)
        elif box.kill_at < box.ends_at:
            self.end(box, KILLED)
        else:
            self.end(box, box.end_code)

    def _settle_start(self, box: Box) -> None:
        """A start that the engine's end cuts either has come about or has not."""
        if box.starting_until is None:
            return
        if self.chance.random() < 0.5:
            self.begin(box)
        else:
            box.starting_until = None


class FakeEngine(Engine):
    """One process's way to the daemon."""

    def __init__(self, daemon: FakeDaemon) -> None:
        super().__init__("/nowhere/engine.sock")
        self.daemon = daemon
        self.alive = True
        self._driver = threading.get_ident()
        self._fault: Fault | None = None
        self._skips = 0

    def arm(self, fault: Fault | None) -> None:
        """Let `fault` befall one of the coming calls; None lets all go well again."""
        self._fault, self._skips = fault, 0 if fault is None else fault.skip

    def leave(self) -> None:
        """The process ends: nobody waits for its calls any more, and what they began goes on."""
        with self.daemon.changed:
            self.alive = False
            self.daemon.changed.notify_all()

    def ping(self) -> None:
        self._call("ping", lambda _: None)

    def version(self) -> Document:
        return self._call("version", lambda _: {"ApiVersion": "1.41", "MinAPIVersion": "1.12"})

    def info(self) -> Document:
        return self._call(
            "info",
            lambda _: {
                "ID": "FAKE",
                "DockerRootDir": "/var/lib/fake",
                "NCPU": 64,
                "MemTotal": 64 * 2**30,
                "Architecture": "x86_64",
            },
        )

    def create(self, name: str, body: Mapping[str, object]) -> Document:
        def effect(fault: Fault | None) -> Document:
            self._require_creatable(name, body)
            box = self.daemon.make(name, json.loads(json.dumps(body)), self)
            if _lags(fault) and _leaves(fault):
                box.late, box.appears_at = True, self.daemon.now + LATE_S
            return {"Id": box.id, "Warnings": []}

        return self._call("create", effect)

    def start(self, container: str) -> None:
        def effect(fault: Fault | None) -> None:
            box = self._load(container)
            if box.state is State.RUNNING:
                return
            _require_mounts(box.body)
            if fault is not None and fault.kind is Kind.FAILED_START:
                box.code, box.error = NEVER_STARTED, NO_DRIVER
                raise EngineError(500, NO_DRIVER)
            if box.starting_until is None:
                box.starting_until = self.daemon.now + SLOW_START_S
            if not _lags(fault):
                self._finish_start(box)

        self._call("start", effect)
        self._await_start(container)

    def list_containers(self, *labels: str) -> list[Document]:
        return self._call(
            "list", lambda _: [_describe(box) for box in self.daemon.listed() if _carries(box.labels, labels)]
        )

    def inspect(self, container: str, timeout_s: float | None = None) -> Document:
        del timeout_s
        return self._call("inspect", lambda _: _inspect(self._load(container)))

    def kill(self, container: str, signal: str) -> None:
        def effect(_: Fault | None) -> None:
            box = self._load(container)
            if box.state is not State.RUNNING:
                raise EngineError(409, f"Cannot kill container: {box.id}: Container {box.id} is not running")
            if signal in {"KILL", "SIGKILL"}:
                self.daemon.end(box, KILLED)
            else:
                self.daemon.term(box, NEVER)

        self._call("kill", effect)

    def stop(self, container: str, timeout_s: float) -> None:
        def effect(_: Fault | None) -> Box:
            box = self._load(container)
            if box.state is State.RUNNING:
                self.daemon.term(box, max(0, round(timeout_s)))
            return box

        self._await_end(self._call("stop", effect))

    def remove(self, container: str, *, force: bool = False) -> None:
        def effect(_: Fault | None) -> None:
            box = self._load(container)
            if box.starting_until is not None:
                self._meet_start(box, force=force)
            if box.state is State.RUNNING and not force:
                said = f"You cannot remove a running container {box.id}. Stop the container before attempting removal"
                raise EngineError(409, f"{said} or force remove")
            self.daemon.drop(box)

        self._call("remove", effect)

    def logs(self, container: str, since: str) -> Iterator[tuple[Literal["stdout", "stderr"], bytes]]:
        del since
        self._call("logs", lambda _: self._load(container))
        return iter(())

    def inspect_image(self, image: str) -> Document:
        def effect(_: Fault | None) -> Document:
            if image not in self.daemon.images:
                raise EngineError(404, f"No such image: {image}")
            return {"Id": image, "RepoDigests": [], "Architecture": "amd64", "Config": {"User": ""}}

        return self._call("image", effect)

    def pull(self, repository: str, tag: str, login: RegistryLogin | None, timeout_s: float) -> Stream:
        del login, timeout_s
        raise BackendUnreachable(f"the registry of {repository}:{tag} is silent")

    def events(self, *labels: str) -> Stream:
        raise BackendUnreachable(f"no events of {labels} are told here")

    def find_listener(self) -> int | None:
        return None

    def _call(self, method: str, effect: Callable[[Fault | None], _T]) -> _T:
        fault = self._take_fault(method)
        kind = fault.kind if fault else None
        if kind is Kind.BEFORE:
            _act(fault)
        with self.daemon.changed:
            self._require_alive(kind)
            run = self.daemon.runs
            if threading.get_ident() == self._driver:
                self.daemon.advance(CALL_S)
            if not self.daemon.up or kind is Kind.REFUSED:
                raise _unreachable(method)
            result = self._effect(effect, fault)
        if kind is Kind.WITHIN:
            _act(fault)
        if kind is Kind.KILLED_AFTER:
            raise ProcessKilled
        if kind is Kind.LOST or self.daemon.runs != run:
            raise _unreachable(method)
        return result

    def _effect(self, effect: Callable[[Fault | None], _T], fault: Fault | None) -> _T:
        try:
            return effect(fault)
        except EngineError as error:
            if fault is None:
                raise
            if fault.kind is Kind.KILLED_AFTER:
                raise ProcessKilled from error
            if fault.kind is Kind.LOST:
                raise _unreachable("a call that it refused") from error
            raise

    def _take_fault(self, method: str) -> Fault | None:
        fault = self._fault
        if fault is None or threading.get_ident() != self._driver or fault.method not in {method, "any"}:
            return None
        if self._skips:
            self._skips -= 1
            return None
        self._fault = None
        self.daemon.met[fault.kind.value] += 1
        return fault

    def _require_alive(self, kind: Kind | None) -> None:
        if kind is Kind.KILLED_BEFORE:
            raise ProcessKilled
        if self.alive:
            return
        if threading.get_ident() == self._driver:
            raise ProcessKilled
        raise _unreachable("a process that has ended")

    def _require_creatable(self, name: str, body: Mapping[str, Any]) -> None:
        if body["Image"] not in self.daemon.images:
            raise EngineError(404, f"No such image: {body['Image']}")
        taken = next((box for box in self.daemon.boxes.values() if box.name == name), None)
        if taken is not None:
            said = f'Conflict. The container name "/{name}" is already in use by container "{taken.id}".'
            raise EngineError(
                409, f"{said} You have to remove (or rename) that container to be able to reuse that name."
            )
        _require_mounts(body)

    def _load(self, container: str) -> Box:
        box = next((one for one in self.daemon.boxes.values() if container in {one.id, one.name}), None)
        if box is None:
            raise EngineError(404, f"No such container: {container}")
        return box

    def _finish_start(self, box: Box) -> None:
        if box.starting_until is not None:
            self.daemon.advance(max(0.0, box.starting_until - self.daemon.now))

    def _await_start(self, container: str) -> None:
        """A caller that stayed is answered when the program runs, or when somebody has called the start off."""
        with self.daemon.changed:
            box = self._load(container)
            self._finish_start(box)
            if box.state is State.CREATED:
                raise EngineError(404, f"No such container: {container}")

    def _meet_start(self, box: Box, *, force: bool) -> None:
        """A removal in the middle of a start waits for it; without force the engine may also call the start off."""
        if force or self.daemon.chance.random() < 0.5:
            self._finish_start(box)
        else:
            box.starting_until = None

    def _await_end(self, box: Box) -> None:
        daemon = self.daemon
        with daemon.changed:
            if threading.get_ident() == self._driver:
                while box.state is State.RUNNING and box.next_at < NEVER:
                    daemon.advance(max(0.0, box.next_at - daemon.now))
                return
            run = daemon.runs
            own = threading.get_ident()
            daemon.waits[own] = lambda: box.state is State.RUNNING and self.alive and daemon.runs == run
            try:
                daemon.changed.wait_for(lambda: not daemon.waits[own]())
            finally:
                del daemon.waits[own]
        if not self.alive or daemon.runs != run:
            raise _unreachable("stop")


def _act(fault: Fault | None) -> None:
    if fault is not None and fault.act is not None:
        fault.act()


def _leaves(fault: Fault | None) -> bool:
    return fault is not None and fault.kind in {Kind.LOST, Kind.KILLED_AFTER}


def _lags(fault: Fault | None) -> bool:
    return fault is not None and fault.lag and (_leaves(fault) or fault.kind is Kind.WITHIN)


def _unreachable(what: str) -> BackendUnreachable:
    return BackendUnreachable(f"the engine did not answer {what}")


def _require_mounts(body: Mapping[str, Any]) -> None:
    for mount in (body.get("HostConfig") or {}).get("Mounts") or ():
        if not Path(mount["Source"]).exists():
            said = 'invalid mount config for type "bind": bind source path does not exist: '
            raise EngineError(400, said + mount["Source"])


def _carries(labels: Mapping[str, str], wanted: tuple[str, ...]) -> bool:
    pairs = (one.partition("=") for one in wanted)
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in pairs)


def _describe(box: Box) -> Document:
    return {
        "Id": box.id,
        "Names": [f"/{box.name}"],
        "ImageID": str(box.body.get("Image", "")),
        "State": box.shown.value,
        "Labels": dict(box.labels),
    }


def _inspect(box: Box) -> Document:
    state = {
        "Status": box.state.value,
        "Running": box.state is State.RUNNING,
        "OOMKilled": False,
        "ExitCode": box.code,
        "Error": box.error,
        "StartedAt": _tell(box.started_at),
        "FinishedAt": _tell(box.finished_at),
    }
    return {"Id": box.id, "Name": f"/{box.name}", "State": state, "Config": {"Labels": dict(box.labels)}}


def _tell(at: float | None) -> str:
    if at is None:
        return "0001-01-01T00:00:00Z"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
