"""One machine in virtual time: processes of two installs, a console that asks them for things, and what befalls them.

Operations may be disturbed in any of their calls to the engine: refused, answered into the void, their process killed,
or another process acting in between. After every step nothing may have happened that the hosts promise never happens.
"""

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.tests.containers.builders import make_request
from core.tests.containers.fake_engine import NEVER, Box, FakeDaemon, FakeEngine, Fault, Job, Kind, ProcessKilled
from core.tests.containers.referee import Referee, Tracked
from starforge.containers.engine import Engine
from starforge.containers.gpus import GpuSource, MadeUpGpus
from starforge.containers.host import ContainerHost
from starforge.containers.labels import State
from starforge.containers.settings import GpuRuntime, HostSettings
from starforge.contract.executor import GpuState, NodeView
from starforge.contract.ids import AttemptId
from starforge.contract.launch import PoolRequest, Secret
from starforge.contract.observation import Gone, NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, Conflict, LaunchRefused, NoCapacity, NodeFault

MakeHost: TypeAlias = Callable[[Engine, GpuSource, HostSettings], ContainerHost]

GPUS: Final = MadeUpGpus(3, "Test GPU", "n1")
IMAGE: Final = "starforge/job:1"
KILL_AFTER_GRACE_S: Final = 20
JOBS: Final = {
    "ends": Job(ends_after_s=2.0, code=7),
    "runs on": Job(),
    "traps": Job(on_term=0, term_takes_s=3.0),
    "ignores": Job(on_term=None),
    "theirs": Job(on_term=None),
}
INSTALLS: Final = {"a1": "lab", "a2": "lab", "b": "other"}
"""Two processes of one install, as when an old daemon has not quite ended; and another install on the same engine."""

METHODS: Final = ("any", "any", "list", "create", "start", "remove")
ACTS: Final = ("launch", "launch other", "fence", "stop", "cleanup", "sweep", "mark lost", "by hand", "restart", "wait")
ASKS: Final = {"launch new": 8, "launch": 4, "fence": 3, "stop": 4, "stop at once": 1, "cleanup": 3, "sweep": 3}
ASKS_MORE: Final = {"mark lost": 1, "look": 5, "launcher dies": 4}
COURSE: Final = {"time passes": 5, "stops repeated": 1, "image to fetch": 2, "image arrives": 2}
DEATHS: Final = {"process killed": 1, "engine restarted": 4, "engine killed": 1, "machine rebooted": 1}
MISFORTUNES: Final = {**DEATHS, "removed by hand": 1, "disk full": 2}
WHAT: Final = [
    what for each in (ASKS, ASKS_MORE, COURSE, MISFORTUNES) for what, weight in each.items() for _ in range(weight)
]


@dataclass(frozen=True, slots=True)
class Plan:
    """A disturbance as it is drawn: `act` is what another process does meanwhile, for kinds where one does."""

    kind: Kind
    method: str
    skip: int
    lag: bool
    act: str


PLANS: Final = st.builds(
    Plan,
    kind=st.sampled_from(list(Kind)),
    method=st.sampled_from(METHODS),
    skip=st.integers(0, 5),
    lag=st.booleans(),
    act=st.sampled_from(ACTS),
)
RACES: Final = st.builds(
    Plan,
    kind=st.sampled_from([Kind.BEFORE, Kind.WITHIN]),
    method=st.sampled_from(["image", "info", "list", "create", "create", "start", "remove", "remove"]),
    skip=st.just(0),
    lag=st.booleans(),
    act=st.sampled_from(["launch other"] * 4 + ["fence"] * 4 + list(ACTS)),
)
DIES: Final = Plan(Kind.KILLED_BEFORE, "start", 0, lag=False, act="wait")
MAYBE: Final = st.one_of(st.none(), PLANS, RACES, RACES)
WHO: Final = st.sampled_from(list(INSTALLS))


@dataclass(frozen=True, slots=True)
class Order:
    """One step as it is drawn: `what`, by the process `who`, with one of the `which` newest attempts."""

    what: str
    who: str
    which: int
    gpus: int
    script: str
    seconds: float
    plan: Plan | None


ORDERS: Final = st.builds(
    Order,
    what=st.sampled_from(WHAT),
    who=WHO,
    which=st.integers(0, 3),
    gpus=st.sampled_from([1, 1, 1, 2, 0]),
    script=st.sampled_from(["ends", "ends", "runs on", "traps", "ignores"]),
    seconds=st.sampled_from([0.1, 1.0, 3.0, 60.0]),
    plan=MAYBE,
)
BOUND_S: Final = 20.0
IMMINENT_S: Final = 0.7


@dataclass(slots=True)
class Process:
    """One living process of ours."""

    role: str
    settings: HostSettings
    engine: FakeEngine
    host: ContainerHost


Operation: TypeAlias = Callable[[Process], None]


class HostMachine(RuleBasedStateMachine):
    """The machine. `tally` counts what happened over all examples of a run."""

    def __init__(self, root: Path, tally: Counter[str], make_host: MakeHost = ContainerHost) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=root))
        self.tally = tally
        self.make_host = make_host
        self.daemon = FakeDaemon(jobs=dict(JOBS), images={IMAGE})
        self.referee = self.daemon.watcher = Referee(self.daemon)
        self.theirs = self.daemon.add_by_hand("theirs", {})
        self.processes: dict[str, Process] = {}
        self.own_lock = False
        self.acted = False
        self.nested = 0

    @initialize(seed=st.integers(0, 1 << 16), own_lock=st.booleans())
    def open_all(self, seed: int, own_lock: bool) -> None:  # noqa: FBT001 - drawn by name
        self.daemon.chance.seed(seed)
        self.own_lock = own_lock
        self._write_boot_id()
        for role in INSTALLS:
            self._open(role)

    @rule(order=ORDERS)
    def step(self, order: Order) -> None:
        self.tally["steps"] += 1
        self.tally[order.what] += 1
        if not self.daemon.up and order.which == 0:
            self.daemon.start()
        if order.what in MISFORTUNES:
            self._befall(order)
        elif order.what in COURSE:
            self._go_on(order)
        elif order.what == "look":
            self._do(order.who, None, self._look, order.plan)
        elif order.what == "launcher dies":
            self._launch_new(order, DIES)
            self._launch_new(order, order.plan)  # the next process meets what is left
        elif order.what == "launch new":
            self._launch_new(order, order.plan)
        else:
            tracked = self._find(order.who, order.which)
            if tracked is not None:
                self._do(order.who, tracked, lambda process: self._ask(order.what, process, tracked), order.plan)

    @invariant()
    def nothing_forbidden_happened(self) -> None:
        assert not self.referee.fouls, "; ".join(self.referee.fouls)
        assert self.theirs.kill_at == NEVER, "somebody else's container was stopped"
        assert self.theirs.id in self.daemon.boxes, "somebody else's container was removed"
        for tracked in self.referee.attempts.values():
            if tracked.cleaned:
                assert not self._secrets_of(tracked).exists(), f"secrets of {tracked.attempt} are left after cleanup"

    def teardown(self) -> None:
        try:
            if self.processes:
                self._carry_out_stops()
                self.nothing_forbidden_happened()
        finally:
            self.tally.update(self.daemon.met)
            for role in list(self.processes):
                self._end(role)
            shutil.rmtree(self.root, ignore_errors=True)

    def _launch_new(self, order: Order, plan: Plan | None) -> None:
        new = self._add(INSTALLS[order.who], order.gpus, order.script, IMAGE)
        self._do(order.who, new, lambda process: self._launch(process, new), plan)

    def _befall(self, order: Order) -> None:
        boxes = self._boxes()
        match order.what:
            case "process killed":
                self._reopen(order.who)
            case "engine killed" | "engine restarted" if self.daemon.up:
                self.daemon.kill(live_restore=order.which > 0)
                if order.what == "engine restarted":
                    self.daemon.start()
            case "machine rebooted":
                self._reboot()
            case "removed by hand" if boxes and self.daemon.up:
                self._remove_by_hand(boxes[order.which % len(boxes)])
            case "disk full":
                self.daemon.be_full(order.seconds)

    def _go_on(self, order: Order) -> None:
        if order.what == "time passes":
            self.daemon.advance(order.seconds)
            return
        if not self.daemon.up:
            self.daemon.start()
        match order.what:
            case "image to fetch":
                self._launch_what_must_be_fetched(order)
            case "image arrives":
                self._let_image_arrive(order.which)
            case "stops repeated":
                self._carry_out_stops()

    def _do(self, who: str, tracked: Tracked | None, operation: Operation, plan: Plan | None) -> None:
        """Let the process `who` do `operation`, disturbed as planned."""
        process = self.processes[who]
        self._settle()
        self._pass_what_is_imminent()
        self.acted = False
        process.engine.arm(self._build_fault(who, tracked, plan))
        try:
            operation(process)
        except ProcessKilled:
            self._reopen(who)
        finally:
            process.engine.arm(None)
        self._settle()

    def _pass_what_is_imminent(self) -> None:
        """Let nothing end by itself in the middle of a look: what is told would be compared with what came after."""
        boxes, now = self.daemon.boxes, self.daemon.now
        while any(now < box.appears_at or box.next_at < now + IMMINENT_S for box in boxes.values()):
            self.daemon.advance(IMMINENT_S)
            now = self.daemon.now

    def _ask(self, ask: str, process: Process, tracked: Tracked) -> None:
        match ask:
            case "launch" if not tracked.by_hand:
                self._launch(process, tracked)
            case "fence":
                self._fence(process, tracked)
            case "stop" | "stop at once":
                self._stop(process, tracked, 60 if ask == "stop" else 0)
            case "cleanup":
                self._clean_up(process, tracked)
            case "sweep":
                self._sweep(process, tracked)
            case "mark lost":
                self._mark_lost(process, tracked)

    def _build_fault(self, who: str, tracked: Tracked | None, plan: Plan | None) -> Fault | None:
        if plan is None:
            return None
        # The one that matters is of the same install for what concerns the attempt, and of the other one for room.
        by = "a2" if who == "a1" else "a1"
        if plan.act == "launch other" and who != "b":
            by = "b"
        method = "start" if plan.kind is Kind.FAILED_START else plan.method
        skip = plan.skip if method == "any" else plan.skip // 4
        return Fault(plan.kind, method, skip, plan.lag, lambda: self._act(plan.act, by, tracked))

    def _act(self, act: str, by: str, tracked: Tracked | None) -> None:
        """What another process, a person or the machine does while a call is under way."""
        self.tally[f"meanwhile: {act}"] += 1
        depth, self.acted = self.acted, False
        self.nested += 1
        try:
            if act == "wait":
                self.daemon.advance(1.0)
            elif act == "restart" and self.daemon.up:
                self.daemon.kill(live_restore=True)
                self.daemon.start()
            elif act == "launch other":
                self._launch(self.processes[by], self._add(INSTALLS[by], 1, "runs on", IMAGE))
            elif tracked is not None:
                self._act_on(act, by, tracked)
        finally:
            self.nested -= 1
            self.acted = depth or True

    def _act_on(self, act: str, by: str, tracked: Tracked) -> None:
        box = self.daemon.find_box(tracked.attempt)
        if act == "by hand" and box is not None and self.daemon.up:
            self._remove_by_hand(box)
        elif INSTALLS[by] == tracked.request.install:
            self._ask(act, self.processes[by], tracked)

    def _launch(self, process: Process, tracked: Tracked) -> None:
        tracked.refused = False
        try:
            process.host.launch(tracked.request)
        except (NoCapacity, NodeFault, LaunchRefused) as error:
            self.tally[type(error).__name__] += 1
            if not self.acted and not self.nested:
                tracked.refused = True
                self._require_nothing_left(tracked)
                assert not self._secrets_of(tracked).exists(), (
                    f"secrets of {tracked.attempt}, which was refused, are left"
                )
        except BackendUnreachable:
            self.tally["launch whose outcome is not known"] += 1
        else:
            tracked.pending = not tracked.over and tracked.request.image not in self.daemon.images

    def _fence(self, process: Process, tracked: Tracked) -> None:
        tracked.pending = False
        answer = process.host.fence(tracked.attempt)
        if isinstance(answer, NoSignal):
            self._require_reason(answer)
            return
        tracked.over = "fenced"
        if isinstance(answer, Gone):
            self.tally["fenced before it started"] += 1
            assert answer.fenced
            self._require_nothing_left(tracked)
        else:
            assert answer.phase is not Phase.PREPARING, f"{tracked.attempt} is fenced and about to start"

    def _stop(self, process: Process, tracked: Tracked, remaining_s: float) -> None:
        fetching, tracked.pending = tracked.pending, False
        try:
            process.host.stop(tracked.attempt, remaining_s)
        except BackendUnreachable:
            return
        self._settle()
        box = self.daemon.find_box(tracked.attempt)
        if fetching:
            tracked.over = "stopped while its image was fetched"
        elif box is not None and box.lives:
            self.tally["stop acknowledged"] += 1
            tracked.stopper = process.role
            tracked.stop_by = min(tracked.stop_by or self.daemon.now + remaining_s, self.daemon.now + remaining_s)

    def _clean_up(self, process: Process, tracked: Tracked) -> None:
        before, tracked.removable, tracked.pending = tracked.removable, True, False
        try:
            process.host.cleanup(tracked.attempt)
        except Conflict:
            tracked.removable = before
            box = self.daemon.find_box(tracked.attempt)
            assert self.acted or (box is not None and box.started_at is not None)
        except BackendUnreachable:
            return
        else:
            self.tally["cleaned up"] += 1
            tracked.over, tracked.cleaned = "cleaned up", True
            self._require_nothing_left(tracked)

    def _mark_lost(self, process: Process, tracked: Tracked) -> None:
        tracked.removable, tracked.killable, tracked.pending = True, True, False
        try:
            process.host.remove(tracked.attempt)
        except BackendUnreachable:
            return
        tracked.over, tracked.cleaned = "marked lost", True
        self._require_nothing_left(tracked)

    def _sweep(self, process: Process, unknown: Tracked) -> None:
        before, unknown.removable = unknown.removable, True
        known = {one.attempt for one in self._of(unknown.request.install) if one is not unknown}
        try:
            swept = process.host.sweep(known)
        except BackendUnreachable:
            return
        finally:
            unknown.removable = before or self.daemon.find_box(unknown.attempt) is None
        assert self.acted or {*swept.removed, *swept.running} <= {unknown.attempt}
        if swept.removed:
            self.tally["swept"] += 1
            self._require_nothing_left(unknown)

    def _look(self, process: Process) -> None:
        up = self.daemon.up
        attempts = [one.attempt for one in self._of(process.settings.install)]
        answers = process.host.observe(attempts)
        for attempt, answer in answers.items():
            if isinstance(answer, NoSignal):
                self._require_reason(answer)
            else:
                assert up, f"the engine is away and {attempt} is said to be {answer}"
                self._require_true(attempt, answer)
        self._require_view(process)
        held = process.host.inventory()
        if not isinstance(held, NoSignal) and not self.acted:
            ours = {
                box.attempt
                for box in self.daemon.listed()
                if box.labels.get("forge.install") == process.settings.install
            }
            assert ours <= set(held)

    def _launch_what_must_be_fetched(self, order: Order) -> None:
        """Half of them are stopped while they are fetched."""
        tracked = self._add(INSTALLS[order.who], order.which % 2, "ends", f"absent:{len(self.referee.attempts)}")
        self._do(order.who, tracked, lambda process: self._launch(process, tracked), None)
        if order.seconds > 1:
            self._do(order.who, tracked, lambda process: self._stop(process, tracked, 5), order.plan)

    def _let_image_arrive(self, which: int) -> None:
        """The processes that fetched it have ended meanwhile; the next one goes on with what they had accepted."""
        waiting = [one for one in self.referee.attempts.values() if one.request.image not in self.daemon.images][::-1]
        if not waiting:
            return
        tracked = waiting[which % len(waiting)]
        accepted, tracked.pending = tracked.pending, False
        roles = [role for role, install in INSTALLS.items() if install == tracked.request.install]
        for role in roles:
            self._reopen(role)
        self.daemon.images.add(tracked.request.image)
        host = self.processes[roles[0]].host
        host.resume()
        _join_threads(f"launch {tracked.attempt}")
        answer = host.observe([tracked.attempt])[tracked.attempt]
        assert not accepted or isinstance(answer, Seen), f"{tracked.attempt} was accepted and is {answer}"
        self.tally["launch resumed by the next process"] += 1

    def _carry_out_stops(self) -> None:
        """What the console does for every stop that was acknowledged: repeat it until the end is seen."""
        wanted = [one for one in self.referee.attempts.values() if one.stop_by is not None]
        if not wanted:
            return
        if not self.daemon.up:
            self.daemon.start()
        self._settle()
        self.daemon.advance(1.0)
        for tracked in wanted:
            self._stop(self.processes[tracked.stopper], tracked, 0)
        self.daemon.advance(max(one.stop_by or 0.0 for one in wanted) - self.daemon.now + KILL_AFTER_GRACE_S + 2)
        self.daemon.advance(KILL_AFTER_GRACE_S)
        for tracked in wanted:
            box = self.daemon.find_box(tracked.attempt)
            assert box is None or not box.lives, f"{tracked.attempt} runs on after its stop was acknowledged"
            tracked.stop_by = None

    def _require_true(self, attempt: AttemptId, answer: Seen | Gone) -> None:
        """What is said of an attempt is what the engine holds of it, unless somebody acted meanwhile."""
        box = self.daemon.find_box(attempt)
        tracked = self.referee.attempts[attempt]
        if self.acted:
            return
        if isinstance(answer, Gone):
            assert box is None or box.late, f"{attempt} is called gone and the engine holds it, {box.state}"
            assert not tracked.pending, f"{attempt} is called gone while its image is fetched"
        elif answer.exit is not None:
            self.tally["exit code read"] += 1
            assert box is not None
            assert answer.exit.code == box.code
        elif answer.phase is Phase.RUNNING:
            assert box is not None
            assert box.state is State.RUNNING, f"{attempt} is said to run and is {box.state}"
            assert frozenset(answer.gpus) == box.gpus

    def _require_view(self, process: Process) -> None:
        """GPUs are held by whom the labels name."""
        view = process.host.view()
        if not isinstance(view, NodeView) or self.acted:
            return
        for gpu in view.gpus:
            boxes = [box for box in self._boxes() if gpu.uuid in box.gpus and self._holds(box)]
            if len(boxes) > 1:
                continue
            expected = GpuState.FREE
            if boxes:
                own = boxes[0].labels["forge.install"] == process.settings.install
                expected = GpuState.HELD if own else GpuState.FOREIGN
            assert gpu.state is expected, f"{gpu.uuid} is {gpu.state}, and {expected} by the labels"

    def _require_nothing_left(self, tracked: Tracked) -> None:
        """No container of it is there; a create that was answered into the void may still appear, and never starts."""
        box = self.daemon.find_box(tracked.attempt)
        assert self.acted or box is None or box.late, f"a container of {tracked.attempt} is left"

    def _require_reason(self, answer: NoSignal) -> None:
        self.tally["no signal"] += 1
        assert answer.reason

    def _remove_by_hand(self, box: Box) -> None:
        tracked = self.referee.attempts[AttemptId(box.attempt)]
        tracked.by_hand = tracked.removable = tracked.killable = True
        with self.daemon.changed:
            self.daemon.drop(box)

    def _holds(self, box: Box) -> bool:
        return box.lives or (box.state is State.CREATED and box.labels["forge.boot"] == self.daemon.boot)

    def _boxes(self) -> list[Box]:
        return [box for box in self.daemon.listed() if box is not self.theirs]

    def _of(self, install: str) -> list[Tracked]:
        return [one for one in self.referee.attempts.values() if one.request.install == install]

    def _find(self, who: str, which: int) -> Tracked | None:
        """One of the newest attempts of this process's install."""
        newest = self._of(INSTALLS[who])[::-1]
        return newest[which % len(newest)] if newest else None

    def _add(self, install: str, gpus: int, script: str, image: str) -> Tracked:
        number = len(self.referee.attempts)
        attempt = AttemptId(f"jaaaaaaaaa-{number + 1}-{number:06x}")
        pool = PoolRequest(name="main", nodes=1, gpus_per_node=gpus, cpus=0.05, memory_bytes=64 * 1024**2)
        request = make_request(
            self.root / "jobs",
            script,
            attempt=attempt,
            install=install,
            image=image,
            user=f"{os.geteuid()}:{os.getegid()}",
            secrets={"TOKEN": Secret("a secret")},
            pools=(pool,),
        )
        tracked = self.referee.attempts[attempt] = Tracked(attempt, request)
        return tracked

    def _secrets_of(self, tracked: Tracked) -> Path:
        return self.root / "secrets" / tracked.request.install / tracked.attempt

    def _open(self, role: str) -> None:
        install = INSTALLS[role]
        lock = "locks-b" if role == "b" and self.own_lock else "locks"
        (self.root / lock).mkdir(exist_ok=True)
        settings = HostSettings(
            install=install,
            node="n1",
            state_dir=self.root / "state" / install,
            secrets_root=self.root / "secrets" / install,
            gpu_runtime=GpuRuntime.NVIDIA,
            lock_dir=self.root / lock,
            lock_timeout_s=0.0,
            engine_pid_file=self.root / "docker.pid",
            boot_id_file=self.root / "boot_id",
        )
        engine = FakeEngine(self.daemon)
        self.referee.locks[engine] = lock
        self.processes[role] = Process(role, settings, engine, self.make_host(engine, GPUS, settings))

    def _reopen(self, role: str) -> None:
        self._end(role)
        self._open(role)

    def _end(self, role: str) -> None:
        process = self.processes[role]
        process.engine.leave()
        process.host.close()
        self._settle()

    def _reboot(self) -> None:
        for role in INSTALLS:
            self._end(role)
        self.daemon.reboot()
        self._write_boot_id()
        shutil.rmtree(self.root / "secrets", ignore_errors=True)
        for tracked in self.referee.attempts.values():
            tracked.pending = False
        for role in INSTALLS:
            self._open(role)

    def _write_boot_id(self) -> None:
        (self.root / "boot_id").write_text(self.daemon.boot)

    def _settle(self) -> None:
        """Return when every stop under way has reached the engine or has ended."""
        deadline = time.monotonic() + BOUND_S
        for thread in threading.enumerate():
            if not thread.name.startswith("stop j"):
                continue
            while thread.is_alive() and not self.daemon.is_waiting(thread.ident or 0):
                assert time.monotonic() < deadline, f"{thread.name} neither waits nor ends"
                thread.join(0.0005)


def _join_threads(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(BOUND_S)
            assert not thread.is_alive(), f"{name} goes on"
