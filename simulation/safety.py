"""What may never be so, asked after every step, and what must be so once everything is healed and has settled."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Row, select

from simulation.edges import Edges
from simulation.steps import Step, What
from simulation.world import World
from starforge.contract.ids import AttemptId, JobId, job_of, number_of
from starforge.contract.states import ENDED, JobState, Reason
from starforge_console.ledger.holding import HOLDING
from starforge_console.ledger.tables import attempts, jobs

_OVER: Final = {state.value for state in ENDED}


class Violation(AssertionError):
    """A sentence of safety does not hold."""


@dataclass
class Safety:
    """Watches one world."""

    world: World
    succeeded: set[str] = field(default_factory=set)
    before: dict[str, tuple[str, str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._edges = Edges(self.world)

    def look(self, step: Step) -> None:
        """Raise Violation if a sentence does not hold after `step`."""
        rows = self._rows()
        self._require_no_fouls()
        self._require_one_life(rows)
        self._require_no_loss(rows)
        self._require_final_success(rows)
        self._require_good_starts()
        self._require_edges_once(step)
        self._require_progress_kept()
        self._require_stops_kept(rows)
        self._require_silence_changes_nothing(step, rows)
        self.before = {row.id: (row.state, row.reason, row.attempt_number) for row in rows.values()}

    def look_at_end(self) -> None:
        """The same, once the console could work in peace: nothing is stuck, and every stop was carried out."""
        self.look(Step(What.TIME))
        rows = self._rows()
        stuck = {job: row.state for job, row in rows.items() if row.state in HOLDING}
        if stuck:
            raise Violation(f"jobs that hold a place for ever: {stuck}")
        waiting = {job: row.note for job, row in rows.items() if row.state == JobState.QUEUED.value}
        if waiting:
            raise Violation(f"jobs that are never started: {waiting}")
        later = {job: row.state for job, row in rows.items() if row.retry_at is not None}
        if later:
            raise Violation(f"jobs that are to go on some time and never do: {later}")
        self._require_no_job_forgotten(rows)
        for machine in self.world.machines:
            alive = [box.attempt for box in machine.living()]
            if alive:
                raise Violation(f"{', '.join(alive)} run on {machine.name} though no job holds a place")

    def _require_no_job_forgotten(self, rows: dict[JobId, Row[tuple[object, ...]]]) -> None:
        """Every job has ended as somebody wished, or by itself."""
        for job, row in rows.items():
            if job in self.world.stopped and row.state not in _OVER:
                raise Violation(f"{job} was to be stopped and is {row.state}")
            if row.state == JobState.PAUSED.value and job not in self.world.paused:
                raise Violation(f"{job} stays paused though nobody paused it")
            by_window = row.reason == Reason.WINDOW_CLOSED.value and not row.goes_on
            if row.state == JobState.STOPPED.value and job not in self.world.stopped and not by_window:
                raise Violation(f"{job} is stopped though nobody stopped it")

    def _rows(self) -> dict[JobId, Row[tuple[object, ...]]]:
        found = self.world.ledger.read_now(lambda connection: connection.execute(select(jobs)).all())
        return {JobId(row.id): row for row in found}

    def _require_no_fouls(self) -> None:
        """No GPU in two containers, no attempt started twice, nothing started after its fence."""
        for machine in self.world.machines:
            if machine.referee.fouls:
                raise Violation(f"{machine.name}: {'; '.join(machine.referee.fouls)}")

    def _require_one_life(self, rows: dict[JobId, Row[tuple[object, ...]]]) -> None:
        """A job lives in one container, of its newest attempt, and one whose attempt ended lives in none."""
        living = Counter(job_of(AttemptId(box.attempt)) for machine in self.world.machines for box in machine.living())
        twice = [job for job, count in living.items() if count > 1]
        if twice:
            raise Violation(f"{', '.join(twice)} run in two containers")
        idle = [job for job in living if job in rows and rows[job].state not in HOLDING]
        if idle:
            raise Violation(f"{', '.join(f'{job} is {rows[job].state}' for job in idle)} and its container runs")

    def _require_no_loss(self, rows: dict[JobId, Row[tuple[object, ...]]]) -> None:
        lost = [job for job in self.world.submitted if job not in rows]
        if lost:
            raise Violation(f"{', '.join(lost)} are lost")
        open_ones = self.world.ledger.read_now(
            lambda connection: connection.execute(
                select(attempts.c.job_id, attempts.c.id).where(attempts.c.ended_at.is_(None))
            ).all()
        )
        count = Counter(JobId(row.job_id) for row in open_ones)
        for job, row in rows.items():
            if count[job] != (row.state in HOLDING):
                raise Violation(f"{job} is {row.state} with {count[job]} attempts that have not ended")

    def _require_final_success(self, rows: dict[JobId, Row[tuple[object, ...]]]) -> None:
        done = {job for job, row in rows.items() if row.state == JobState.SUCCEEDED.value}
        if not self.succeeded <= done:
            raise Violation(f"{', '.join(self.succeeded - done)} had succeeded")
        self.succeeded |= done

    def _require_good_starts(self) -> None:
        """Nothing starts over a quota, in a maintenance, on a drained machine, or at the cost of a reservation."""
        if self.world.judge.fouls:
            raise Violation("; ".join(self.world.judge.fouls))

    def _require_edges_once(self, step: Step) -> None:
        """Each edge of a window ends an attempt once and lets it go on once, and none is missed."""
        fouls = self._edges.find_fouls()
        if step.what is What.DEQUEUE:
            fouls += self._edges.find_missed()
        if fouls:
            raise Violation("; ".join(fouls))

    def _require_progress_kept(self) -> None:
        """What is told to end has the time to save, and goes on from what it saved."""
        kept: dict[JobId, int] = {}
        saved = {one: step for machine in self.world.machines for one, step in machine.kept_steps().items()}
        for machine in self.world.machines:
            if machine.cut_short():
                raise Violation(f"{', '.join(machine.cut_short())} were killed before they had saved")
        begun = sorted(
            (number_of(one), one, step) for machine in self.world.machines for one, step in machine.begun_at()
        )
        for _, attempt, step in begun:
            job = job_of(attempt)
            if step < kept.get(job, 0):
                raise Violation(f"{attempt} began at {step} though {kept[job]} was kept")
            kept[job] = max(step, saved.get(attempt, 0), kept.get(job, 0))

    def _require_stops_kept(self, rows: dict[JobId, Row[tuple[object, ...]]]) -> None:
        """No attempt begins after a stop was acknowledged, until a user wishes otherwise."""
        for job, number in self.world.stopped.items():
            if rows[job].attempt_number > number:
                raise Violation(f"{job} began another attempt after its stop was acknowledged")

    def _require_silence_changes_nothing(self, step: Step, rows: dict[JobId, Row[tuple[object, ...]]]) -> None:
        """While no machine answers, no look changes a job that was there before it."""
        if step.what is not What.RECONCILE or not all(machine.is_cut_off for machine in self.world.machines):
            return
        for job, (state, reason, number) in self.before.items():
            row = rows[JobId(job)]
            if state in HOLDING and (row.state, row.reason, row.attempt_number) != (state, reason, number):
                raise Violation(f"nothing answered, and {job} went from {state} to {row.state} for {row.reason}")
