"""Shows the checkpoint to go on from where a framework looks for it: among those of this attempt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal
from starforge.runner.plainfiles import list_files, show_path, write_whole

if TYPE_CHECKING:
    from starforge.runner.checkpoints import Committed, Look

_MOST_FILES = 50_000  # as many as a committed checkpoint may hold


def mirror_checkpoint(mirror: contract.ResumeMirror, resume: Committed, ckpt: str) -> Dict[str, Look]:
    """Make what the plan's `resume_mirror` asks for, and give the directories that are mirrors with their links.

    A checkpoint that lies below `ckpt` itself stays as it is. Raises Refusal.
    """
    root, held = _find_root(mirror, resume), {}
    for directory in (mirror.directory, *mirror.also):
        target = _inside(ckpt, directory)
        if os.path.realpath(root) != os.path.realpath(ckpt):
            _link_files(os.path.join(root, directory), target)
            held[target] = list_files(target, most_files=_MOST_FILES).files
    for name, text in mirror.files.items():
        path = _inside(ckpt, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_whole(path, text.encode())
        except OSError as error:
            raise _refuse(f"{name} cannot be written beside the checkpoint: {error.strerror}") from error
    return held


def _find_root(mirror: contract.ResumeMirror, resume: Committed) -> str:
    """Find the checkpoint directory that the old checkpoint lies in."""
    suffix = os.sep + os.path.normpath(mirror.directory)
    path = os.path.abspath(resume.path)
    if not path.endswith(suffix):
        text = f"checkpoint {show_path(resume.path)} does not lie where the plan looks for it, {mirror.directory}"
        raise _refuse(text)
    return path[: -len(suffix)]


def _link_files(source: str, target: str) -> None:
    """Make `target` hold a link for every file of `source`; what the old attempt wrote is never written to."""
    listing = list_files(source, most_files=_MOST_FILES)
    problem = listing.problems[0] if listing.problems else "it holds too many files"
    if not listing.is_whole:
        raise _refuse(f"checkpoint {show_path(source)} cannot be listed: {problem}")
    names = [name for name, _, _ in listing.files if os.path.basename(name) != contract.CHECKPOINT_MANIFEST]
    if not names:
        raise _refuse(f"checkpoint {show_path(source)} is not there: it was to be gone on from together with its like")
    try:
        for name in names:
            link = os.path.join(target, name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            _link(os.path.join(source, name), link)
    except OSError as error:
        raise _refuse(f"checkpoint {show_path(source)} cannot be mirrored: {error.strerror}") from error


def _link(source: str, link: str) -> None:
    """Make the link, unless it is there already: an attempt may have been begun before. Raises OSError."""
    try:
        os.symlink(source, link)
    except FileExistsError:
        if not os.path.islink(link) or os.readlink(link) != source:
            raise


def _inside(root: str, name: str) -> str:
    path = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) or not path.startswith(root + os.sep):
        raise _refuse(f"the plan names {name!r}, which lies outside of the checkpoint directory")
    return path


def _refuse(text: str) -> Refusal:
    return Refusal(contract.EXIT_REQUIREMENTS, "start_failed", text)
