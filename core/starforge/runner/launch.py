"""From the verified capsule to the started training process."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from starforge.contract import capsule as contract
from starforge.contract.bounds import MASKED_BYTES
from starforge.runner.desk import Desk
from starforge.runner.endings import Refusal
from starforge.runner.masking import build_patterns
from starforge.runner.places import Places
from starforge.runner.ports import build_port_settings, require_free
from starforge.runner.prepare import (
    Launch,
    apply_plan,
    build_launch,
    make_report_file,
    remove_report_file,
    resolve_plan,
)
from starforge.runner.probe import refuse_unfit_image
from starforge.runner.processes import Child, become_subreaper
from starforge.runner.workspace import publish_work, unpack_workspace, wait_for_work

if TYPE_CHECKING:
    from starforge.runner.checkpoints import Committed, Look

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


@dataclass(frozen=True)
class Started:
    """The training process, since when it runs (Unix seconds), the file it reports to, and the plan it was started by.

    The plan's PLACE_ words are replaced. `mirrored` are the directories that show an older attempt's checkpoint.
    """

    child: Child
    started_at: float
    report_file: str
    plan: contract.Plan
    mirrored: Dict[str, Look] = field(default_factory=dict)


def start_training(capsule: contract.Capsule, desk: Desk) -> Optional[Started]:
    """Probe, prepare and start. None when nothing is left to train. Raises Refusal or Interrupted."""
    places, spool = desk.places, desk.spool
    _declare_unmasked(desk)
    refuse_unfit_image(capsule.requirements, {**os.environ, **capsule.platform_env, **capsule.plan.env})
    if places.is_leader:  # the others come to its ports, and may share its machine
        require_free(build_port_settings(capsule.plan, os.environ))
    desk.check()
    _make_directories(places)
    resume, problems = _find_newest([places.ckpt, *capsule.resume_from])
    for problem in problems:
        spool.event("note", code="checkpoint_damaged", message=problem)
    capsule = replace(capsule, plan=resolve_plan(capsule.plan, places, resume))
    mirrored = _mirror(capsule.plan, desk, resume)
    _prepare_work(capsule, desk)
    if resume is not None and _has_all_steps(capsule.plan.complete, resume, desk):
        return None
    desk.check()
    report_file = make_report_file()
    try:
        return replace(_start_in(capsule, desk, resume, report_file), mirrored=mirrored)
    except Refusal:
        remove_report_file(report_file)
        raise


def _start_in(capsule: contract.Capsule, desk: Desk, resume: Optional[Committed], report_file: str) -> Started:
    places, spool = desk.places, desk.spool
    launch = build_launch(capsule, places, desk.secrets, report_file, resume)
    if not become_subreaper():
        text = "this kernel or Python lets detached processes escape: they are ended with the container"
        spool.event("note", code="no_subreaper", message=text)
    started = Started(_start(launch), time.time(), report_file, capsule.plan)
    spool.event(
        "started",
        time=started.started_at,
        argv=list(launch.argv),
        python="{}.{}.{}".format(*sys.version_info[:3]),
        resumed_from=None if resume is None else {"step": resume.step, "path": resume.path},
        node=places.node_rank,
    )
    return started


def _make_directories(places: Places) -> None:
    try:
        for path in (places.ckpt, places.out):
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        text = f"{error}: the attempt's directory must be writable for user {os.getuid()} of the container"
        raise Refusal(contract.EXIT_REQUIREMENTS, "start_failed", text) from error


def _find_newest(roots: List[str]) -> Tuple[Optional[Committed], List[str]]:
    if not any(map(_holds_something, roots)):
        return None, []
    from starforge.runner.checkpoints import find_newest  # noqa: PLC0415 - a first attempt does not pay for it

    return find_newest(roots)


def _mirror(plan: contract.Plan, desk: Desk, resume: Optional[Committed]) -> Dict[str, Look]:
    """Mirror the checkpoint where the plan asks for it: the leader, before the others find their work directory."""
    if plan.resume_mirror is None or resume is None or not desk.places.is_leader:
        return {}
    from starforge.runner.mirror import mirror_checkpoint  # noqa: PLC0415 - a first attempt does not pay for it

    return mirror_checkpoint(plan.resume_mirror, resume, desk.places.ckpt)


def _has_all_steps(rule: contract.CompleteRule, resume: Committed, desk: Desk) -> bool:
    """Say whether nothing is left to train: a framework that goes on from its last step often trains one more."""
    from starforge.runner.totals import find_total_steps  # noqa: PLC0415 - a first attempt does not pay for it

    total = find_total_steps(rule, resume)
    if total is None or resume.step < total:
        return False
    text = f"checkpoint {resume.path} is at step {resume.step} of {total}: nothing is left to train"
    desk.spool.event("note", code="already_complete", message=text)
    return True


def _holds_something(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return any(True for _ in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False  # nothing to go on from
    except OSError:
        return True  # what lies there is looked for, and told of where it cannot be seen


def _declare_unmasked(desk: Desk) -> None:
    for name, value in desk.secrets.values.items():
        if not build_patterns([value]):
            text = f"the secret {name} is shorter than {MASKED_BYTES} bytes: it is not masked in logs"
            desk.spool.event("note", code="secret_too_short", message=text)


def _prepare_work(capsule: contract.Capsule, desk: Desk) -> None:
    places = desk.places
    if not places.is_leader:
        desk.line.open()
        wait_for_work(places.work, desk.check)
        return
    began = time.monotonic()
    partial = places.work + ".tmp"
    unpack_workspace(capsule.workspace, partial, _find_file_count(capsule), desk.check)
    apply_plan(capsule, partial)
    publish_work(partial, places.work, capsule.node_count > 1)
    desk.spool.event("workspace_ready", elapsed_s=round(time.monotonic() - began, 3))


def _find_file_count(capsule: contract.Capsule) -> Optional[int]:
    """Find how many files the job was submitted with."""
    spec = capsule.spec.get("spec")
    workspace = spec.get("workspace") if isinstance(spec, dict) else None
    count = workspace.get("files") if isinstance(workspace, dict) else None
    return count if isinstance(count, int) else None


def _start(launch: Launch) -> Child:
    try:
        return Child(launch.argv, launch.environment, launch.directory)
    except (OSError, ValueError) as error:
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        text = f"{launch.argv[0]!r} cannot be started: {error}; name a program of the image or of the workspace"
        raise Refusal(code, "start_failed", text) from error
