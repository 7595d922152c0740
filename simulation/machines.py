"""The machines of a simulated fleet: real hosts of containers over engines in memory, in virtual time.

A machine has the daemon of this install, and a neighbour: another install on the same engine that takes GPUs when it
likes. A referee at each engine judges, at the moment when it happens, what may never happen.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from core.tests.containers.fake_engine import Box, FakeDaemon, FakeEngine, Fault, Job, ProcessKilled
from core.tests.containers.machine import MakeHost
from core.tests.containers.referee import Referee, Tracked
from starforge.containers.gpus import MadeUpGpus
from starforge.containers.host import ContainerHost
from starforge.containers.labels import State
from starforge.containers.settings import GpuRuntime, HostSettings
from starforge.contract.executor import NodeView
from starforge.contract.ids import AttemptId, Digest, job_of, number_of
from starforge.contract.launch import LaunchRequest, Network, PoolRequest, Secret
from starforge.contract.observation import NoSignal
from starforge.errors import BackendUnreachable

INSTALL: Final = "lab"
NEIGHBOUR: Final = "next-door"
IMAGE: Final = "train:1"
PROGRAMS: Final = {
    "short": Job(ends_after_s=20.0),
    "long": Job(ends_after_s=900.0),
    "fails": Job(ends_after_s=5.0, code=1),
    "fails late": Job(ends_after_s=60.0, code=1),
    "ignores": Job(on_term=None),
    "for ever": Job(),
    "trains": Job(),
}
"""What jobs of a simulation do."""

TRAINS: Final = "trains"
"""A program that saves when it is told to end, and goes on from there; its attempts run `trains` and how far it is."""

TRAINING_S: Final = 900
_SAVES_S: Final = 10.0
_SAVED: Final = 143
_KILLED: Final = 137

ENDLESS: Final = frozenset({"ignores", "for ever"})
"""Programs that nothing but a stop ends; they are named after what their jobs run."""

_BOUND_S: Final = 20.0
_T = TypeVar("_T")


@dataclass(slots=True)
class Witness(Referee):
    """A referee who remembers what was removed."""

    gone: list[Box] = field(default_factory=list)

    def removed(self, box: Box) -> None:
        Referee.removed(self, box)  # a class with slots is made twice, and `super` knows the first one
        self.gone.append(box)


class Machine:
    """One machine: its engine, the daemon of this install on it, and a neighbour, which may have a lock of its own."""

    def __init__(self, name: str, gpus: int, folder: Path, seed: int, make_host: MakeHost = ContainerHost) -> None:
        self.name = name
        self.is_cut_off = False
        self.gpus = MadeUpGpus(gpus, "Test GPU", name)
        self.daemon = FakeDaemon(seed=seed, jobs=dict(PROGRAMS), images={IMAGE})
        self.referee = self.daemon.watcher = Witness(self.daemon)
        self.last_view: NodeView | None = None
        self._folder = folder / name
        self._make_host = make_host
        self._locks = {INSTALL: "locks", NEIGHBOUR: "locks" if seed % 2 else "locks-next-door"}
        for lock in self._locks.values():
            (self._folder / lock).mkdir(parents=True, exist_ok=True)
        self._write_boot()
        self._engine, self._host = self._open(INSTALL)
        self._theirs, self._neighbour = self._open(NEIGHBOUR)

    def call(self, do: Callable[[ContainerHost], _T]) -> _T:
        """What the daemon answers. Raises BackendUnreachable where it dies meanwhile: the next one is there at once."""
        self._settle()
        try:
            return do(self._host)
        except ProcessKilled:
            self.kill_daemon()
            raise BackendUnreachable(f"the daemon of {self.name} closed the connection") from None
        finally:
            self._settle()

    def arm(self, fault: Fault) -> None:
        """Let `fault` befall the next call to the engine that it is about."""
        self._engine.arm(fault)

    def track(self, request: LaunchRequest) -> None:
        """Let the referee know what is about to be launched, and the engine what it does."""
        program = request.command[-1]
        if program.startswith(TRAINS):
            left_s = max(1.0, TRAINING_S - _read_begin(program))
            self.daemon.jobs[program] = Job(ends_after_s=left_s, on_term=_SAVED, term_takes_s=_SAVES_S)
        self.referee.attempts.setdefault(request.attempt, Tracked(request.attempt, request, removable=True))

    def look(self) -> NodeView | NoSignal:
        """What the machine offers."""
        view = self.call(lambda host: host.view())
        if isinstance(view, NodeView):
            self.last_view = view
        return view

    def kill_daemon(self) -> None:
        """The daemon of this install ends, and another one takes over."""
        self._end(self._engine, self._host)
        self._engine, self._host = self._open(INSTALL)
        self.call(lambda host: host.resume())

    def restart_engine(self, *, live_restore: bool) -> None:
        """The engine ends and comes back; without live restore its containers end with it."""
        self.daemon.kill(live_restore=live_restore)
        self.daemon.start()
        self._settle()

    def reboot(self) -> None:
        """The machine is switched off and on."""
        for engine, host in ((self._engine, self._host), (self._theirs, self._neighbour)):
            self._end(engine, host)
        self.daemon.reboot()
        self._write_boot()
        shutil.rmtree(self._folder / "secrets", ignore_errors=True)
        self._engine, self._host = self._open(INSTALL)
        self._theirs, self._neighbour = self._open(NEIGHBOUR)
        self.call(lambda host: host.resume())

    def let_neighbour_launch(self, request: LaunchRequest) -> None:
        """The other install takes what it finds free; its own failures are its own."""
        self.track(request)
        try:
            self._neighbour.launch(request)
        except Exception as error:  # noqa: BLE001 - whatever it meets, the fleet under test must stand it
            self.daemon.met[f"neighbour: {type(error).__name__}"] += 1

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.daemon.advance(seconds)
        self._settle()

    def living(self) -> list[Box]:
        """This install's containers whose program runs or is about to."""
        return [box for box in self.daemon.boxes.values() if box.labels.get("forge.install") == INSTALL and box.lives]

    def ended_well(self) -> list[tuple[AttemptId, int]]:
        """Attempts whose program ended by itself, with the code that its runner could write down."""
        return [(AttemptId(box.attempt), box.code) for box in self._ended() if box.code in {0, 1}]

    def kept_steps(self) -> dict[AttemptId, int]:
        """How far trainings came that could save, in seconds of training."""
        return {AttemptId(box.attempt): _step_of(box) for box in self._ended() if box.code == _SAVED and _trains(box)}

    def cut_short(self) -> list[str]:
        """Attempts of trainings that were killed before they had saved."""
        return [box.attempt for box in self._ended() if box.code == _KILLED and _trains(box)]

    def begun_at(self) -> list[tuple[AttemptId, int]]:
        """Each training that has begun, with the step that it began at."""
        return [(AttemptId(box.attempt), _read_begin(_program_of(box))) for box in self._own() if _trains(box)]

    def close(self) -> None:
        """End every process of the machine."""
        self._end(self._engine, self._host)
        self._end(self._theirs, self._neighbour)

    def _own(self) -> list[Box]:
        boxes = [*self.referee.gone, *self.daemon.boxes.values()]
        return [box for box in boxes if box.labels.get("forge.install") == INSTALL and box.started_at is not None]

    def _ended(self) -> list[Box]:
        return [box for box in self._own() if box.state is State.EXITED]

    def _open(self, install: str) -> tuple[FakeEngine, ContainerHost]:
        settings = HostSettings(
            install=install,
            node=self.name,
            state_dir=self._folder / "state" / install,
            secrets_root=self._folder / "secrets" / install,
            gpu_runtime=GpuRuntime.NVIDIA,
            lock_dir=self._folder / self._locks[install],
            lock_timeout_s=0.0,
            engine_pid_file=self._folder / "docker.pid",
            boot_id_file=self._folder / "boot_id",
        )
        engine = FakeEngine(self.daemon)
        self.referee.locks[engine] = self._locks[install]
        make = self._make_host if install == INSTALL else ContainerHost
        return engine, make(engine, self.gpus, settings)

    def _end(self, engine: FakeEngine, host: ContainerHost) -> None:
        engine.leave()
        host.close()
        self._settle()

    def _write_boot(self) -> None:
        (self._folder / "boot_id").write_text(self.daemon.boot)

    def _settle(self) -> None:
        """Return when every stop under way has reached the engine or has ended."""
        deadline = time.monotonic() + _BOUND_S
        for thread in threading.enumerate():
            while thread.name.startswith("stop j") and thread.is_alive() and not self._waits(thread):
                if time.monotonic() > deadline:
                    raise AssertionError(f"{thread.name} neither waits nor ends")
                thread.join(0.0005)

    def _waits(self, thread: threading.Thread) -> bool:
        return self.daemon.is_waiting(thread.ident or 0) or not self._is_ours(thread)

    def _is_ours(self, thread: threading.Thread) -> bool:
        """Stops wait at the machine of their attempt; those of another machine settle there."""
        return AttemptId(thread.name.removeprefix("stop ")) in self.referee.attempts


def _program_of(box: Box) -> str:
    return str(box.body["Cmd"][-1])


def _trains(box: Box) -> bool:
    return _program_of(box).startswith(TRAINS)


def _read_begin(program: str) -> int:
    """The step that a training begins at."""
    return int(program.removeprefix(TRAINS))


def _step_of(box: Box) -> int:
    """How far a training that has ended came."""
    return _read_begin(_program_of(box)) + int((box.finished_at or 0.0) - (box.started_at or 0.0))


def who_am_i() -> str:
    """The user that files of a simulation belong to."""
    return f"{os.geteuid()}:{os.getegid()}"


def build_request_next_door(number: int, gpus: int) -> LaunchRequest:
    """What the neighbour launches as its attempt of this number."""
    attempt = AttemptId(f"jzzzzzzzzz-{number}-{number:06x}")
    return LaunchRequest(
        attempt=attempt,
        job=job_of(attempt),
        number=number_of(attempt),
        install=NEIGHBOUR,
        fleet="there",
        image=IMAGE,
        command=("-c", "long"),
        workdir="/",
        user=who_am_i(),
        env={},
        secrets={"TOKEN": Secret("theirs")},
        mounts=(),
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=gpus, cpus=0.1, memory_bytes=1 << 26),),
        labels={},
        network=Network.NONE,
        grace_s=5,
        max_runtime_s=None,
        shm_bytes=None,
        capsule_digest=Digest("sha256:" + "0" * 64),
        ingest_url="",
    )
