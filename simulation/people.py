"""What people do to a simulated install: users with their jobs, administrators with everything else."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, update

from simulation.install import Install
from simulation.machines import PROGRAMS
from simulation.rules import FLEET, GRACE_S, TEAM_OF_ADA, draw_hours
from simulation.steps import Step, What
from starforge.contract.ids import Digest, JobId
from starforge.contract.launch import PoolRequest
from starforge.contract.queue import QUEUE_MOVES
from starforge.contract.states import DesiredState
from starforge.errors import Conflict
from starforge_console.domain.nodes import NodeState
from starforge_console.domain.quota import NO_LIMIT, TEAM, USER, Holder
from starforge_console.domain.wishes import Wish
from starforge_console.ledger.jobs import NewJob, admit
from starforge_console.ledger.maintenance import begin_maintenance, end_maintenance, pause_holding
from starforge_console.ledger.nodes import set_state
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.ledger.quotas import change_parts
from starforge_console.ledger.tables import jobs
from starforge_console.ledger.windows import WindowLine, put_window, remove_window
from starforge_console.ledger.wishes import wish, wish_resume, wish_retry

if TYPE_CHECKING:
    from starforge_console.domain.opening import WindowOf

_DIGEST: Final = Digest("sha256:" + "0" * 64)
_GPUS: Final = (1, 1, 2, 0, 3)
_LIMITS_S: Final = (600.0, 1800.0, 5400.0)
_PASSED: Final = 15
_HOLDERS: Final = (Holder(USER, "bob"), Holder(USER, "ada"), Holder(TEAM, TEAM_OF_ADA))
_PARTS: Final[tuple[Mapping[str, int | None], ...]] = (
    {"gpus": 1},
    {"gpus": 2},
    {"jobs": 1},
    {"gpus": 3, "jobs": 2},
    {"gpus": None, "jobs": None},
)
_STOP: Final = Wish(desired=DesiredState.STOP)
_PAUSE: Final = Wish(desired=DesiredState.PAUSE)


class People:
    """Everybody who wishes something."""

    def __init__(self, install: Install) -> None:
        self._install = install
        self._deeds: Mapping[What, Callable[[Step], None]] = {
            What.SUBMIT: self._submit,
            What.STOP: self._stop,
            What.PAUSE: self._pause,
            What.RESUME: self._resume,
            What.RETRY: self._retry,
            What.MOVE: self._move,
            What.DRAIN: self._drain,
            What.DRAIN_WITH_PAUSE: self._drain,
            What.UNDRAIN: self._undrain,
            What.MAINTENANCE: self._begin_maintenance,
            What.MAINTENANCE_ENDS: self._end_maintenance,
            What.QUOTA: self._change_quota,
            What.WINDOW: self._set_window,
            What.WINDOW_GOES: self._remove_window,
        }

    def do(self, step: Step) -> None:
        """Do what `step` says."""
        self._deeds[step.what](step)

    def wish(self, job: JobId, wished: Wish) -> None:
        """Wish something of a job, and remember what was acknowledged."""
        install = self._install
        try:
            changed = install.write(lambda connection: wish(connection, job, wished, install.guard()))
        except Conflict:
            return
        if changed and wished.desired is DesiredState.STOP:
            install.stopped[job] = install.number_of(job)
            install.paused.discard(job)
        elif changed:
            install.paused.add(job)

    def take_everything_back(self) -> None:
        """No machine is drained any more, nobody has a quota, and no maintenance lasts; windows stay."""
        for number in range(len(self._install.machines)):
            self._undrain(Step(What.UNDRAIN, number))
        for holder in _HOLDERS:
            self._limit(holder, {"gpus": None, "jobs": None})
        self._end_maintenance(Step(What.MAINTENANCE_ENDS))

    def _submit(self, step: Step) -> None:
        install = self._install
        gpus = _GPUS[step.a % len(_GPUS)]
        number = len(install.submitted)
        job = JobId("j" + "".join(chr(ord("a") + number // 26**place % 26) for place in range(9)))
        install.assembly.program_of[job] = list(PROGRAMS)[step.b % len(PROGRAMS)]
        has_limit = install.rules.is_strict or step.a % 9 == 0
        new = NewJob(
            id=job,
            user_id=install.users[step.a % 2],
            name="sim",
            project="sim",
            spec="{}",
            spec_digest=_DIGEST,
            admission="{}",
            fleet=(None, FLEET)[step.a // 10 % 2],
            priority=step.b % 3,
            pools=(PoolRequest(name="main", nodes=1, gpus_per_node=gpus, cpus=0.1, memory_bytes=1 << 26),),
            gpus=gpus,
            grace_s=GRACE_S,
            max_runtime_s=_LIMITS_S[step.a // 20 % len(_LIMITS_S)] if has_limit else None,
            retries=step.b % 2,
        )
        passed = _PASSED + step.a % 2 if step.b % 2 == 0 else 0

        def keep(connection: Connection) -> None:
            admit(connection, new, None, install.clock.now())
            # As if so many had started before it: a simulation is too short to wait for that.
            connection.execute(update(jobs).where(jobs.c.id == job).values(passed=passed))

        install.write(keep)
        install.submitted.append(job)

    def _stop(self, step: Step) -> None:
        wished = Wish(desired=DesiredState.STOP, grace_s=0.0) if step.b % 2 else _STOP
        for job in self._install.choose(step.a):
            self.wish(job, wished)

    def _pause(self, step: Step) -> None:
        for job in self._install.choose(step.a):
            self.wish(job, _PAUSE)

    def _resume(self, step: Step) -> None:
        install = self._install
        for job in install.choose(step.a):
            self._by_user(job, partial(wish_resume, job_id=job, guard=install.guard(), note="resumed"))

    def _retry(self, step: Step) -> None:
        install, retries = self._install, step.b % 3
        for job in install.choose(step.a):
            self._by_user(job, partial(wish_retry, job_id=job, retries=retries, guard=install.guard(), note="retried"))

    def _by_user(self, job: JobId, do: Callable[[Connection], bool]) -> None:
        try:
            changed = self._install.write(do)
        except Conflict:
            return
        if changed:
            self._install.stopped.pop(job, None)
            self._install.paused.discard(job)

    def _move(self, step: Step) -> None:
        install, to = self._install, QUEUE_MOVES[step.b % len(QUEUE_MOVES)]
        for job in install.choose(step.a):
            try:
                install.write(partial(put_in_queue, job_id=job, to=to, by="root", now=install.clock.now()))
            except Conflict:
                return

    def _drain(self, step: Step) -> None:
        install, node = self._install, self._install.machine(step).name
        guard, pauses = install.guard(), step.what is What.DRAIN_WITH_PAUSE

        def drain(connection: Connection) -> None:
            set_state(connection, node, NodeState.DRAINING, "a fan")
            if pauses:
                pause_holding(connection, node, "drained", guard)

        install.write(drain)
        install.rules.drained.add(node)

    def _undrain(self, step: Step) -> None:
        node = self._install.machine(step).name
        self._install.write(lambda connection: set_state(connection, node, NodeState.ACTIVE))
        self._install.rules.drained.discard(node)

    def _begin_maintenance(self, step: Step) -> None:
        del step
        guard = self._install.guard()
        self._install.write(lambda connection: begin_maintenance(connection, "root", "new disks", guard))
        self._install.rules.in_maintenance = True

    def _end_maintenance(self, step: Step) -> None:
        del step
        self._install.write(end_maintenance)
        self._install.rules.in_maintenance = False

    def _change_quota(self, step: Step) -> None:
        self._limit(_HOLDERS[step.a % len(_HOLDERS)], _PARTS[step.b % len(_PARTS)])

    def _limit(self, holder: Holder, parts: Mapping[str, int | None]) -> None:
        limit = self._install.write(lambda connection: change_parts(connection, holder, parts))
        self._install.rules.limits.pop(holder, None)
        if limit != NO_LIMIT:
            self._install.rules.limits[holder] = limit

    def _set_window(self, step: Step) -> None:
        hours = draw_hours(self._install.clock, step.a, step.b)
        line = WindowLine(kept=hours.kept, set_by="root", set_at=self._install.clock.now())
        self._install.write(lambda connection: put_window(connection, line))
        self._install.rules.hours[hours.kept.of] = hours

    def _remove_window(self, step: Step) -> None:
        kept = sorted(self._install.rules.hours)
        of: WindowOf | None = kept[step.a % len(kept)] if kept else None
        if of is not None:
            now = self._install.clock.now()
            self._install.write(lambda connection: remove_window(connection, of, now))
            del self._install.rules.hours[of]
