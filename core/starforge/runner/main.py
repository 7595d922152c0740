"""`python runner.pex run`: one node of one attempt, from the capsule's check to the exit record."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Callable, List, Optional

from starforge.contract import capsule as contract
from starforge.runner.checkpoints import Committed, find_newest
from starforge.runner.chores import Chores
from starforge.runner.conclude import ACKNOWLEDGE_S, Ending, build_record, conclude
from starforge.runner.echo import Echo
from starforge.runner.masking import Masker, build_patterns
from starforge.runner.places import Places, build_places
from starforge.runner.prepare import Secrets, apply_plan, build_launch, load_secrets, make_report_file
from starforge.runner.probe import refuse_unfit_image
from starforge.runner.processes import Child, become_subreaper
from starforge.runner.progress import Progress, decide_complete
from starforge.runner.refusal import Interrupted, Refusal
from starforge.runner.sender import Sender
from starforge.runner.signals import Signals
from starforge.runner.sources import ReportSource
from starforge.runner.spool import Spool
from starforge.runner.supervise import Outlet, Supervisor
from starforge.runner.verify import load_capsule, publish_work, unpack_workspace, wait_for_work
from starforge.runner.wishes import Wishes

_USAGE = 2
_RUNNER_FAILED = 70
_ENDED_BEFORE_START = 143
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


@dataclass(frozen=True)
class Desk:
    """What every step of the attempt needs."""

    places: Places
    secrets: Secrets
    patterns: List[bytes]
    spool: Spool
    wishes: Wishes
    signals: Signals
    sender: Sender
    started: float

    def check(self) -> None:
        """Raise Interrupted when the attempt is to end before its training process started."""
        if self.signals.take_term():
            self.wishes.receive_term()
        self.wishes.poll()
        if self.wishes.must_end:
            raise Interrupted


def main(argv: List[str]) -> int:
    """Run the command; give the exit code: the training process's own, or the refusal's."""
    if argv[1:] != ["run"]:
        _say("usage: python runner.pex run")
        return _USAGE
    try:
        places = build_places(os.environ, os.getcwd(), os.path.abspath(argv[0]))
        secrets, refusal = _read_secrets(places)
        patterns = build_patterns(secrets.values.values())
        spool = Spool(places.spool, patterns)
    except (OSError, ValueError) as error:
        _say(f"the attempt's directory cannot be used: {error}")
        return contract.EXIT_REQUIREMENTS
    return _run(_open_desk(places, secrets, patterns, spool), refusal)


def _run(desk: Desk, refusal: Optional[Refusal]) -> int:
    try:
        ending = _run_attempt(desk, refusal)
    except Refusal as refused:
        ending = Ending(refused.code, reason=refused.cause, message=refused.message)
    except Interrupted:
        ending = Ending(_ENDED_BEFORE_START, message="ended before the training process was started")
    except Exception as error:  # noqa: BLE001 - the outermost frame: the record must be written whatever happened
        text = f"the runner itself failed: {type(error).__name__}: {error}"
        ending = Ending(_RUNNER_FAILED, reason="runner_failed", message=text)
    if ending.message is not None:
        line = f"starforge: {ending.message}\n".encode("utf-8", "backslashreplace")
        desk.spool.log(_mask(desk.patterns, line))
        _say(ending.message, desk.patterns)
    attempt = os.environ.get(contract.ENV_ATTEMPT) or ""
    record = build_record(ending, attempt, desk.wishes, time.monotonic() - desk.started)
    record = conclude(record, desk.spool, desk.places)
    desk.sender.finish(record.to_json(), ACKNOWLEDGE_S)
    return record.code


def _read_secrets(places: Places) -> "tuple[Secrets, Optional[Refusal]]":
    try:
        return load_secrets(places.secrets), None
    except Refusal as refusal:
        return Secrets({}, None), refusal


def _open_desk(places: Places, secrets: Secrets, patterns: List[bytes], spool: Spool) -> Desk:
    signals = Signals()
    wishes = Wishes(places.control, contract.Limits().grace_s)
    sender = Sender(spool, wishes, signals.ring, places.node_rank)
    spool.on_append = sender.wake
    return Desk(places, secrets, patterns, spool, wishes, signals, sender, time.monotonic())


def _run_attempt(desk: Desk, refusal: Optional[Refusal]) -> Ending:
    places, spool = desk.places, desk.spool
    if refusal is not None:
        raise refusal
    capsule = load_capsule(places.capsule, os.environ.get(contract.ENV_CAPSULE_DIGEST) or None)
    desk.wishes.grace_s = capsule.limits.grace_s
    if capsule.ingest is not None and desk.secrets.ingest_token:
        desk.sender.start(capsule.ingest, desk.secrets.ingest_token)
    _declare_unmasked(desk)
    refuse_unfit_image(capsule.requirements, {**os.environ, **capsule.platform_env, **capsule.plan.env})
    desk.check()
    os.makedirs(places.ckpt, exist_ok=True)
    resume, problems = find_newest([places.ckpt, *capsule.resume_from])
    for problem in problems:
        spool.event("note", code="checkpoint_damaged", message=problem)
    _prepare_work(capsule, desk, resume)
    total = capsule.plan.complete.total_steps
    if capsule.plan.complete.kind == "steps" and resume is not None and total is not None and resume.step >= total:
        text = f"checkpoint {resume.path} is at step {resume.step} of {total}: nothing is left to train"
        return Ending(0, complete=True, reason="already_complete", message=text)
    desk.check()
    return _train(capsule, desk, resume)


def _declare_unmasked(desk: Desk) -> None:
    for name, value in desk.secrets.values.items():
        if not build_patterns([value]):
            text = f"the secret {name} is shorter than 8 bytes: it is not masked in logs"
            desk.spool.event("note", code="secret_too_short", message=text)


def _prepare_work(capsule: contract.Capsule, desk: Desk, resume: Optional[Committed]) -> None:
    places = desk.places
    if not places.is_leader:
        wait_for_work(places.work, desk.check)
        return
    began = time.monotonic()
    partial = places.work + ".tmp"
    unpack_workspace(capsule.workspace, partial)
    apply_plan(capsule, places, resume, partial)
    publish_work(partial, places.work, capsule.node_count > 1)
    desk.spool.event("workspace_ready", elapsed_s=round(time.monotonic() - began, 3))


def _train(capsule: contract.Capsule, desk: Desk, resume: Optional[Committed]) -> Ending:
    places, spool, progress = desk.places, desk.spool, Progress()
    report_file = make_report_file()
    launch = build_launch(capsule, places, desk.secrets, report_file, resume)
    if not become_subreaper():
        text = "this kernel or Python lets detached processes escape: they are ended with the container"
        spool.event("note", code="no_subreaper", message=text)
    echo = Echo()
    child = _start(lambda: Child(launch.argv, launch.environment, launch.directory), launch.argv)
    started_at = time.time()
    started_from = {"step": resume.step, "path": resume.path} if resume is not None else None
    spool.event(
        "started",
        time=started_at,
        argv=list(launch.argv),
        python="{}.{}.{}".format(*sys.version_info[:3]),
        resumed_from=started_from,
        node=places.node_rank,
    )
    chores = Chores(capsule.plan, places.work, places.ckpt if places.is_leader else None, spool, progress)
    try:
        outlet = Outlet(spool, Masker(desk.patterns), echo)
        report = ReportSource(report_file, spool, progress)
        limit_s = capsule.limits.max_runtime_s
        cause = Supervisor(child, outlet, report, desk.wishes, desk.signals).run(
            None if limit_s is None else desk.started + limit_s
        )
    finally:
        child.end_descendants()
        chores.end()
        echo.close()
    _declare_missing_curve(capsule.plan, spool, progress)
    code = child.code if child.code is not None else 128 + 9
    return Ending(
        code=code,
        signal=child.signal,
        complete=decide_complete(capsule.plan.complete, progress, code),
        reason=cause,
        message=None if cause is None else f"the run was ended after its limit of {limit_s:g} s",
        started_at=started_at,
    )


def _declare_missing_curve(plan: contract.Plan, spool: Spool, progress: Progress) -> None:
    hooked = any(source.kind == "trainer" for source in plan.metric_sources)
    if hooked and progress.total_steps is None and progress.last_step is None:
        text = "no Trainer reported: it was not reached, or its Python ignores PYTHONPATH; there is no curve"
        spool.event("note", code="no_trainer_metrics", message=text)


def _start(start: Callable[[], Child], argv: "tuple[str, ...]") -> Child:
    try:
        return start()
    except (OSError, ValueError) as error:
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        text = f"{argv[0]!r} cannot be started: {error}; name a program of the image or of the workspace"
        raise Refusal(code, "start_failed", text) from error


def _mask(patterns: List[bytes], text: bytes) -> bytes:
    masker = Masker(patterns)
    return masker.feed(text) + masker.flush()


def _say(message: str, patterns: Optional[List[bytes]] = None) -> None:
    """Tell the engine's log, which is all there is before ingest works."""
    line = _mask(patterns or [], f"starforge: {message}\n".encode("utf-8", "backslashreplace"))
    try:
        os.write(2, line)
    except OSError:
        return  # nobody listens; the record says it too
