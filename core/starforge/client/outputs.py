"""What of a job's files somebody means by a word: outputs, checkpoints, and where they are to be written here."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from starforge.client.files import FilesConsole, Wanted
from starforge.contract.capsule import CKPT_DIRECTORY
from starforge.contract.results import CheckpointView
from starforge.errors import Conflict, NotFound
from starforge.wording import count_of

OUT: Final = "out"
"""The folder of a job's outputs."""
_CHECKPOINT: Final = re.compile(r"checkpoint(?:@step=([0-9]{1,18}))?")
_WHOLE: Final = re.compile(r"(?:out(?:-[0-9]+)?|checkpoints)(?:/.*)?")


def complete_path(path: str) -> str:
    """The path from the run's folder on; one that begins with none of its folders is below the outputs. Pure."""
    path = path.strip("/")
    return path if not path or _WHOLE.fullmatch(path) else f"{OUT}/{path}"


def list_wanted(
    console: FilesConsole, job: str, path: str, target: Path, left_out: list[str] | None = None
) -> Sequence[Wanted]:
    """The files that a path, `checkpoint` or `checkpoint@step=N` means, each with its place in `target`.

    What of a folder is no file, such as links, is added to `left_out`.

    Raises:
        NotFound: the job has no such file, folder or checkpoint.

    """
    found = _CHECKPOINT.fullmatch(path)
    place = _find_checkpoint(console, job, found[1]) if found else complete_path(path)
    name = place.rpartition("/")[2]
    entry = console.find(job, place)
    if entry is None:
        raise NotFound(f"job {job} has no {place!r}", next_step=f"'sf job artifacts {job}' lists what it left")
    if entry.kind == "folder":
        return list(console.walk(job, place, target / name, left_out))
    if entry.kind != "file":
        raise NotFound(f"{place} of job {job} is no file and no folder", why="links are not followed")
    return [Wanted(place, target / name, entry)]


def is_here(one: Wanted) -> bool:
    """Whether the file is at its place in the right size."""
    return one.target.is_file() and one.target.stat().st_size == one.entry.bytes


def refuse_overwriting(missing: Sequence[Wanted], next_step: str) -> None:
    """Raises Conflict where something else lies at the place of a file that is to be brought."""
    there = [one.target for one in missing if one.target.exists() or one.target.is_symlink()]
    if there:
        raise Conflict(f"{count_of(len(there), 'file')} would be written over, {there[0]} first", next_step=next_step)


def _find_checkpoint(console: FilesConsole, job: str, step: str | None) -> str:
    """The folder of the newest committed checkpoint, or of that of a step: as a later attempt would choose it."""
    committed = [one for one in console.outputs(job).checkpoints if one.committed and _is_there(one)]
    chosen = [one for one in committed if step is None or one.step == int(step)]
    if not chosen:
        steps = ", ".join(str(one.step) for one in committed)
        raise NotFound(
            f"job {job} has no committed checkpoint" + (f" of step {step}" if step else ""),
            why=f"committed are {steps}" if steps else "it has committed none",
        )
    newest = max(chosen, key=lambda one: (one.attempt, one.step))
    inner = newest.path.removeprefix(CKPT_DIRECTORY).removeprefix("/")
    return "/".join(part for part in ("checkpoints", str(newest.attempt), inner) if part)


def _is_there(one: CheckpointView) -> bool:
    return one.removed_at is None
