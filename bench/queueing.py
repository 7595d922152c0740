"""One look of the scheduler at a long queue that finds no room, over reading the same rows and nothing else."""

import asyncio
import contextlib
import itertools
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, insert, text

from bench.figures import Figure, Orientation, Ratio, compare, timed, used
from bench.ground import Ground
from bench.scheduling import NODES, build_deps, build_request, fill, insert_jobs, list_nodes, open_ledger
from starforge.contract.executor import FleetView, NoRoom
from starforge.contract.ids import AttemptId, JobId, new_attempt_id, new_job_id
from starforge.contract.launch import Network, PoolRequest
from starforge.contract.observation import NoSignal
from starforge.contract.queue import QueueMove
from starforge.contract.states import JobState
from starforge_console.domain.opening import KeptWindow, WindowOf
from starforge_console.domain.quota import TEAM, USER, Holder
from starforge_console.domain.window_syntax import parse_window
from starforge_console.executors.fake import FakeExecutor
from starforge_console.ledger.accounts import add_user
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet, add_fleet
from starforge_console.ledger.in_flight import list_in_flight
from starforge_console.ledger.pools import write_pools
from starforge_console.ledger.queue_order import list_places
from starforge_console.ledger.queue_places import put_in_queue
from starforge_console.ledger.quotas import change_parts, set_team
from starforge_console.ledger.share_tables import shares
from starforge_console.ledger.tables import attempts
from starforge_console.ledger.windows import WindowLine, put_window
from starforge_console.scheduler.apply import Apply
from starforge_console.scheduler.dequeue import Dequeue
from starforge_console.scheduler.launch import Launcher

_ENDS: Final[tuple[QueueMove, ...]] = ("first", "last")
_QUEUED: Final = 10_000
_ENDED: Final = 1_000_000
_USERS: Final = 20
_TEAMS: Final = 5
_PASS_AT_MOST: Final = 3.0
_UNCHANGED_AT_MOST: Final = 1.0
_HISTORY_AT_MOST: Final = 1.1
_WHOLE_NODE: Final = PoolRequest(name="main", nodes=1, gpus_per_node=8)
_SELECT: Final = (
    "SELECT id, version, fleet, priority, submitted_at, reason, state_since, attempt_number, note, pools"
    " FROM jobs WHERE state = 'QUEUED'"
)
# The columns of one row stand for all: what differs is the id, and when it was.
_COPY_ENDED: Final = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO jobs (id, user_id, name, project, spec, spec_digest, admission, priority, pools, gpus, grace_s, state,
 reason, desired, version, note, attempt_number, retries_left, free_retries, submitted_at, state_since, ended_at)
SELECT 'e' || i, user_id, name, project, '{}', spec_digest, '{}', 0, pools, gpus, grace_s,
 CASE i % 4 WHEN 0 THEN 'FAILED' WHEN 1 THEN 'STOPPED' ELSE 'SUCCEEDED' END,
 'exited', 'RUN', 5, '', 1, 0, 0, -i, -i, -i FROM n, (SELECT * FROM jobs LIMIT 1)
"""


def schedule_pass(ground: Ground) -> list[Figure]:
    """One pass over 10,000 queued jobs that find 400 GPUs taken, over reading the same rows and nothing else.

    It is the pass of a console that has just started, which knows nothing of the queue. Beside it: the pass after one
    job was moved, the one in which nothing is different, and the very first, which notes why each job waits.
    """
    folder = ground.folder()
    with open_ledger(folder) as ledger:
        ledger.write_now(lambda c: fill(c, _QUEUED))
        return _measure(ledger, folder, "schedule_pass")


def schedule_pass_rules(ground: Ground) -> list[Figure]:
    """The same passes where every rule of the queue is in use.

    20 users of 5 teams with shares and limits, a fleet that requires time limits, jobs that were moved or passed, a
    window that is closed for one team, and jobs of 8 GPUs of which the first is promised a start.
    """
    folder = ground.folder()
    with open_ledger(folder) as ledger:
        ledger.write_now(_fill_by_rules)
        return _measure(ledger, folder, "schedule_pass_rules")


def schedule_pass_history(ground: Ground) -> list[Figure]:
    """The passes with 1,000,000 ended jobs in the ledger, over the same without them."""
    short, long = ground.folder(), ground.folder()
    with open_ledger(short) as without, open_ledger(long) as with_history:
        for ledger in (without, with_history):
            ledger.write_now(lambda c: fill(c, _QUEUED))
        with_history.write_now(lambda c: c.execute(text(_COPY_ENDED), {"count": _ENDED}))
        with _open_queue(without) as few, _open_queue(with_history) as many:
            anew = compare(used(many.run_anew), used(few.run_anew), 15, limit_s=30)
            changed = compare(used(many.run_changed), used(few.run_changed), 15, limit_s=30)
    return [
        Ratio("schedule_pass_history", anew.ratio, _HISTORY_AT_MOST, detail=f"{_ENDED} ended, {anew.describe()}"),
        Ratio("schedule_pass_history_changed", changed.ratio, _HISTORY_AT_MOST, detail=changed.describe()),
    ]


class _StillFleet(FakeExecutor):
    """Gives the view it was told to give: making one up is no work of the scheduler's."""

    view: FleetView | NoSignal | None = None

    async def capacity(self) -> FleetView | NoSignal:
        return self.view or await super().capacity()


class _Queue:
    """A console's passes over a queue that finds every machine taken; the first one is done."""

    def __init__(self, ledger: Database, runner: asyncio.Runner) -> None:
        self._ledger, self._runner = ledger, runner
        fleet = _StillFleet("local", list_nodes(), time.time)
        self._deps = runner.run(build_deps(ledger, fleet))
        running = [job.attempt.id for job in ledger.read_now(list_in_flight)]
        runner.run(_take_all(fleet, running or [AttemptId(f"{new_job_id()}-1-abcdef") for _ in range(NODES)]))
        self._known = self._start()
        self.first_s = timed(self.run)()
        self._ends = itertools.cycle(_ENDS)
        self._last = JobId(ledger.read_now(lambda c: list_places(c, 1, after=_QUEUED - 1))[0].job)

    def run(self) -> None:
        """A pass of a console that has run others."""
        self._runner.run(self._known.run_once())

    def run_anew(self) -> None:
        """A pass of a console that has just started."""
        self._runner.run(self._start().run_once())

    def run_changed(self) -> None:
        """A pass after a job was moved to the other end of the queue, with the moving."""
        to = next(self._ends)
        self._ledger.write_now(lambda c: put_in_queue(c, self._last, to, "root", 0.0))
        self.run()

    def _start(self) -> Dequeue:
        return Dequeue(self._deps, Launcher(self._deps, Apply(self._deps)))


@contextlib.contextmanager
def _open_queue(ledger: Database) -> Iterator[_Queue]:
    with asyncio.Runner() as runner:
        yield _Queue(ledger, runner)


def _measure(ledger: Database, folder: Path, name: str) -> list[Figure]:
    with _open_queue(ledger) as queue, contextlib.closing(sqlite3.connect(folder / "ledger.db")) as rows:
        bare = used(lambda: rows.execute(_SELECT).fetchall())
        anew = compare(used(queue.run_anew), bare, 9, limit_s=15)
        changed = compare(used(queue.run_changed), bare, 9, limit_s=15)
        queue.run()
        still = compare(used(queue.run), bare, 9, limit_s=15)
    return [
        Ratio(name, anew.ratio, _PASS_AT_MOST, detail=f"CPU, {_QUEUED} queued, {anew.describe()}"),
        Ratio(f"{name}_changed", changed.ratio, _PASS_AT_MOST, detail=f"one job was moved, {changed.describe()}"),
        Ratio(f"{name}_unchanged", still.ratio, _UNCHANGED_AT_MOST, detail=still.describe()),
        Orientation(f"{name}_first", queue.first_s * 1e3, "ms", detail="the pass that notes why each of them waits"),
    ]


async def _take_all(fleet: _StillFleet, running: list[AttemptId]) -> None:
    """Let jobs of 8 GPUs hold every machine."""
    for attempt in running:
        request = build_request(attempt, (_WHOLE_NODE,))
        view = await fleet.capacity()
        if isinstance(view, NoSignal):
            raise TypeError(view.reason)
        target = fleet.place(request, view)
        if isinstance(target, NoRoom):
            raise TypeError(f"the made-up fleet is smaller than {len(running)} machines")
        await fleet.launch(request, target)
    fleet.view = await fleet.capacity()


def _fill_by_rules(connection: Connection) -> None:
    now = time.time()
    users = [add_user(connection, f"u{number:02}", "member", 1.0) for number in range(_USERS)]
    used = {"at": now, "ordered_at": now}
    for number, user in enumerate(users):
        team = f"t{number % _TEAMS}"
        set_team(connection, user, team)
        change_parts(connection, Holder(USER, f"u{number:02}"), {"gpus": 64})
        change_parts(connection, Holder(TEAM, team), {"gpus": 160})
        share = {"gpu_s": 3600.0 * number, "team_order": 7200.0 * (number % _TEAMS), "user_order": 3600.0 * number}
        connection.execute(insert(shares), {"user_id": user, **used, **share})
    local = Fleet(name="local", kind="node", network=Network.NONE, user=None, requires_limit=True)
    add_fleet(connection, local, now)
    opens = (datetime.now(UTC).hour + 6) % 24
    window = parse_window("UTC", [f"mon-sun {opens:02}:00-{opens + 1:02}:00"])
    put_window(connection, WindowLine(kept=KeptWindow(WindowOf("team", "t0"), window), set_by="root", set_at=now))
    insert_jobs(connection, [_describe_queued(number, users) for number in range(_QUEUED)])
    running = [{"id": new_job_id(), "user_id": users[number % _USERS]} for number in range(NODES)]
    _insert_running(connection, running, now)


def _describe_queued(number: int, users: list[int]) -> dict[str, Any]:
    """Every 50th job was moved, every 20th asks for a whole machine; four time limits."""
    pool = _WHOLE_NODE if number % 20 == 0 else PoolRequest(name="main", nodes=1, gpus_per_node=1 + number % 4)
    return {
        "user_id": users[number * 7 % _USERS],
        "pools": write_pools([pool]),
        "gpus": pool.gpus_per_node,
        "max_runtime_s": 3600.0 * (1 + number % 4),
        "ahead": 1 if number % 50 == 0 else 0,
        "passed": number % 5,
        "submitted_at": float(number),
        "state_since": float(number),
    }


def _insert_running(connection: Connection, running: list[dict[str, Any]], now: float) -> None:
    """Jobs of 8 GPUs with a time limit, one on each machine."""
    made = []
    for number, job in enumerate(running):
        attempt = new_attempt_id(JobId(job["id"]), 1)
        at = {"dequeued_at": now, "launched_at": now, "started_at": now}
        place = {"fleet": "local", "node": f"n{number:02}", "target_name": attempt, "costs_retry": False, "gpus": "[]"}
        made.append({"id": attempt, "job_id": job["id"], "number": 1, **at, **place})
    whole = {"pools": write_pools([_WHOLE_NODE]), "gpus": 8, "max_runtime_s": 86_400.0, "attempt_number": 1}
    state = {"state": JobState.RUNNING.value, **whole}
    insert_jobs(connection, [{**job, **state, "attempt_id": one["id"]} for job, one in zip(running, made, strict=True)])
    connection.execute(insert(attempts), made)
