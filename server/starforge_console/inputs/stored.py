"""Inputs on the storage: paths below the data roots, and committed checkpoints of other jobs. Waits for the disk."""

import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from starforge.contract.ids import JobId
from starforge.contract.jobspec import parse_jobspec
from starforge.errors import NodeFault, NotFound
from starforge.recipes.columns import HEAD_BYTES, find_columns
from starforge.runner.checkpoints import Committed, find_committed, find_newest
from starforge_console.assembly.inputs import find_real_path
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.inputs import CheckpointInput, InputFault, PathInput, parse_checkpoint
from starforge_console.ledger.database import Database
from starforge_console.ledger.jobs import load_spec
from starforge_console.ledger.views import load_job

_STEPS_NAMED: Final = 10
_FILES_LOOKED_AT: Final = 10_000
_ADAPTER: Final = "adapter_config.json"
_WEIGHTS: Final = re.compile(r"(?:model|pytorch_model)[^/]*\.(?:safetensors|bin)")
"""What the weights of a whole model are called, in one file or in several."""


class StoredInputs:
    """Looks inputs up on the storage of one console."""

    def __init__(self, storage: StorageLayout, roots: Sequence[Path], ledger: Database) -> None:
        self._storage = storage
        self._roots = roots
        self._ledger = ledger

    def find_path(self, path: str) -> PathInput | InputFault:
        """The path below a data root, or why no job may have it."""
        shown = ", ".join(map(str, self._roots))
        plain = PurePosixPath(path)
        if ".." in plain.parts or "\0" in path:
            return InputFault("input_outside", f"{path!r} holds '..'", next_step="write the path without it")
        around = (one for one in self._roots if Path(plain).is_relative_to(one))
        root = max(around, key=lambda one: len(one.parts), default=None)  # the whole of it is mounted: the closest one
        if root is None:
            return InputFault(
                "input_outside", f"{path} is below none of the folders that jobs may read", f"these are {shown}"
            )
        given = PathInput(path=str(plain), root=str(root))
        try:
            found = find_real_path(given)
        except NodeFault as error:
            return InputFault("input_root_away", error.what, error.why, "ask an administrator")
        if isinstance(found, InputFault):
            return found
        return replace(given, columns=_look_into(found, Path(os.path.realpath(root))))

    def find_checkpoint(self, reference: str) -> CheckpointInput | InputFault:
        """The committed checkpoint of `run/JOB/checkpoint[@step=N]`, or why there is none."""
        job, step = parse_checkpoint(reference)
        try:
            attempts = self._ledger.read_now(lambda c: load_job(c, job)).attempt_number
        except NotFound:
            return InputFault(
                "checkpoint_job_unknown", f"there is no job {job}", next_step="'sf job ls' lists the jobs"
            )
        roots = self._list_roots(JobId(job), attempts)
        for number, root in roots.items():
            mark = _find_newest(root) if step is None else _find_step(root, step)
            folder = None if mark is None else _find_folder(root, mark)
            if mark is not None and folder is not None:
                return CheckpointInput(job=job, attempt=number, step=mark.step, folder=folder)
        return _explain_none(job, step, list(roots.values()))

    def load_method(self, job: str) -> str:
        """The name of the method that `job` ran. Raises NotFound."""
        text = self._ledger.read_now(lambda c: load_spec(c, JobId(job)))
        return parse_jobspec(json.loads(text)).spec.recipe.name

    def is_adapter(self, start: CheckpointInput) -> bool:
        """Whether the checkpoint is an adapter (LoRA) without the weights that it belongs to."""
        folder = self._storage.attempt_number(JobId(start.job), start.attempt).checkpoints / start.folder
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, _FILES_LOOKED_AT)]
        except FileNotFoundError:
            return False  # deleted since it was found; whoever assembles the job says so
        return _ADAPTER in names and not any(map(_WEIGHTS.fullmatch, names))

    def _list_roots(self, job: JobId, attempts: int) -> dict[int, Path]:
        """Where each attempt keeps its checkpoints, newest attempt first."""
        roots = {number: self._storage.attempt_number(job, number).checkpoints for number in range(attempts, 0, -1)}
        return {number: root for number, root in roots.items() if root.is_dir() and not root.is_symlink()}


def _look_into(file: Path, root: Path) -> frozenset[str] | None:
    """The columns of a data file, from its beginning; None for anything else.

    Whoever may write there may exchange it meanwhile: what was opened is looked at only if it lies below the root.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        place = Path(os.readlink(f"/proc/self/fd/{opened}"))  # noqa: PTH115 - a magic link, whose text is the answer
        if not stat.S_ISREG(os.fstat(opened).st_mode) or not place.is_relative_to(root):
            return None
        return find_columns(file.name, os.read(opened, HEAD_BYTES))
    except OSError:
        return None
    finally:
        os.close(opened)


def _find_newest(root: Path) -> Committed | None:
    mark, _ = find_newest([str(root)])
    return mark


def _find_step(root: Path, step: int) -> Committed | None:
    return next((mark for mark in find_committed(str(root)) if mark.step == step), None)


def _find_folder(root: Path, mark: Committed) -> str | None:
    """The checkpoint's folder relative to `root`; None where links lead to it."""
    folder = Path(mark.path)
    if os.path.realpath(folder) != str(Path(os.path.realpath(root)) / folder.relative_to(root)):
        return None
    return folder.relative_to(root).as_posix()


def _explain_none(job: str, step: int | None, roots: Sequence[Path]) -> InputFault:
    steps = sorted({mark.step for root in roots for mark in find_committed(str(root))}, reverse=True)
    shown = ", ".join(map(str, steps[:_STEPS_NAMED])) + (" …" if len(steps) > _STEPS_NAMED else "")
    if step is not None and steps:
        return InputFault(
            "checkpoint_missing",
            f"job {job} has no committed checkpoint of step {step}",
            f"committed are {shown}",
            "name one of these",
        )
    why = f"none of those that it committed ({shown}) is whole" if steps else "it has committed none"
    return InputFault("checkpoint_missing", f"job {job} has no checkpoint to start from", why)
