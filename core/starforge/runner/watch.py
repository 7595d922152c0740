"""From the started training process to its ending: everything here is loaded while that process already runs."""

from __future__ import annotations

from typing import Optional

from starforge.contract import capsule as contract
from starforge.runner.chores import start_chores
from starforge.runner.desk import Desk
from starforge.runner.echo import Echo
from starforge.runner.endings import Ending
from starforge.runner.launch import Started
from starforge.runner.masking import Masker
from starforge.runner.prepare import remove_report_file
from starforge.runner.progress import Progress, decide_complete
from starforge.runner.sources import ReportSource
from starforge.runner.spool import Spool
from starforge.runner.steps import Repeater
from starforge.runner.supervise import Outlet, Supervisor
from starforge.runner.usage import Sampler

WISH_PERIOD_S = 0.5
_KILLED = 128 + 9


def watch(capsule: contract.Capsule, desk: Desk, started: Started) -> Ending:
    """Stay with the training process until nothing of it is left, and say how it ended.

    What fails beside it, or after it, is noted and changes nothing of that.
    """
    steps, child, wishes = desk.steps, started.child, desk.wishes
    steps.attend("opening the line to ingest", desk.line.open, None)
    echo = Echo()
    report = ReportSource(started.report_file, desk.spool, Progress())
    ckpt = desk.places.ckpt if desk.places.is_leader else None
    chores = start_chores(started, desk.places.work, ckpt, report)
    sampler = Sampler(desk.spool, desk.places.out, capsule.usage_period_s or 0, is_leader=desk.places.is_leader)
    if capsule.usage_period_s:
        sampler.start(steps)
    looks = Repeater("reading control.json", lambda _: _look(desk), WISH_PERIOD_S, steps)
    supervisor = Supervisor(child, Outlet(desk.spool, Masker(desk.patterns), echo), wishes, desk.signals, looks.ask)
    limit_s = capsule.limits.max_runtime_s
    cause: Optional[contract.ExitCause] = None
    try:
        cause = supervisor.run(None if limit_s is None else desk.started + limit_s)
    finally:
        sampler.end()
        supervisor.finish(steps)
        is_hurried = cause is not None or wishes.must_end
        steps.attend("the last look at the job's files", lambda: chores.end(is_hurried=is_hurried), None)
        steps.attend("closing the echo", echo.close, None)
        steps.attend("removing the report file", lambda: remove_report_file(started.report_file), None)
    return _build_ending(capsule, desk, started, report.progress, cause)


def _look(desk: Desk) -> None:
    desk.wishes.poll()
    if desk.wishes.must_end:
        desk.signals.ring()


def _build_ending(
    capsule: contract.Capsule, desk: Desk, started: Started, progress: Progress, cause: Optional[contract.ExitCause]
) -> Ending:
    steps, limit_s = desk.steps, capsule.limits.max_runtime_s
    steps.attend("judging the curve", lambda: _declare_missing_curve(started.plan, desk.spool, progress), None)
    code = started.child.code if started.child.code is not None else _KILLED
    rule, work = started.plan.complete, desk.places.work
    return Ending(
        code=code,
        signal=started.child.signal,
        complete=steps.attend("judging completeness", lambda: decide_complete(rule, progress, code, work), None),
        reason=cause,
        message=None if cause is None else f"the run was ended after its limit of {limit_s:g} s",
        started_at=started.started_at,
    )


def _declare_missing_curve(plan: contract.Plan, spool: Spool, progress: Progress) -> None:
    hooked = any(source.kind == "trainer" for source in plan.metric_sources)
    if hooked and progress.total_steps is None and progress.last_step is None:
        text = "no Trainer reported: it was not reached, or its Python ignores PYTHONPATH; there is no curve"
        spool.event("note", code="no_trainer_metrics", message=text)
