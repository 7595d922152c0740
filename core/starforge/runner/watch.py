"""From the started training process to its ending: everything here is loaded while that process already runs."""

from __future__ import annotations

from starforge.contract import capsule as contract
from starforge.runner.chores import Chores
from starforge.runner.desk import Desk
from starforge.runner.echo import Echo
from starforge.runner.endings import Ending
from starforge.runner.launch import Started
from starforge.runner.masking import Masker
from starforge.runner.prepare import remove_report_file
from starforge.runner.progress import Progress, decide_complete
from starforge.runner.sources import ReportSource
from starforge.runner.spool import Spool
from starforge.runner.supervise import Outlet, Supervisor

_KILLED = 128 + 9


def watch(capsule: contract.Capsule, desk: Desk, started: Started) -> Ending:
    """Stay with the training process until nothing of it is left, and say how it ended."""
    places, spool, progress = desk.places, desk.spool, Progress()
    desk.line.open()
    echo = Echo()
    chores = Chores(capsule.plan, places.work, places.ckpt if places.is_leader else None, spool, progress)
    limit_s = capsule.limits.max_runtime_s
    try:
        outlet = Outlet(spool, Masker(desk.patterns), echo)
        report = ReportSource(started.report_file, spool, progress)
        supervisor = Supervisor(started.child, outlet, report, desk.wishes, desk.signals)
        cause = supervisor.run(None if limit_s is None else desk.started + limit_s)
    finally:
        started.child.end_descendants()
        chores.end()
        echo.close()
        remove_report_file(started.report_file)
    _declare_missing_curve(capsule.plan, spool, progress)
    code = started.child.code if started.child.code is not None else _KILLED
    return Ending(
        code=code,
        signal=started.child.signal,
        complete=decide_complete(capsule.plan.complete, progress, code),
        reason=cause,
        message=None if cause is None else f"the run was ended after its limit of {limit_s:g} s",
        started_at=started.started_at,
    )


def _declare_missing_curve(plan: contract.Plan, spool: Spool, progress: Progress) -> None:
    hooked = any(source.kind == "trainer" for source in plan.metric_sources)
    if hooked and progress.total_steps is None and progress.last_step is None:
        text = "no Trainer reported: it was not reached, or its Python ignores PYTHONPATH; there is no curve"
        spool.event("note", code="no_trainer_metrics", message=text)
