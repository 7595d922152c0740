"""Checks that the capsule is the one the console prepared, and unpacks the workspace without leaving its tree."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Callable, Optional

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal
from starforge.runner.plainfiles import open_plain

if TYPE_CHECKING:
    import tarfile

_CHUNK_BYTES = 1 << 20
_WAIT_FOR_LEADER_S = 900.0
_MODE_FILE = 0o644
_MODE_PROGRAM = 0o755


def load_capsule(directory: str, digest: Optional[str]) -> contract.Capsule:
    """Check every file of the capsule against SHA256SUMS, and that against `digest`, then read capsule.json.

    Raises Refusal with EXIT_CAPSULE_CHANGED, naming the file that differs. Without a digest only the sums are checked.
    """
    sums_path = os.path.join(directory, contract.SUMS_FILE)
    try:
        if digest is not None and hash_file(sums_path, follows_link=True) != digest.rpartition(":")[2]:
            raise _changed(f"{contract.SUMS_FILE} is not the one that was launched")
        with open(sums_path, encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(None, 1) for line in file if line.strip()]
        for expected, name in rows:
            if hash_file(os.path.join(directory, name.lstrip("*")), follows_link=True) != expected:
                raise _changed(f"{name.lstrip('*')} differs from its digest")
        with open(os.path.join(directory, contract.CAPSULE_FILE), encoding="utf-8") as file:
            return contract.Capsule.from_json(json.load(file))
    except (OSError, ValueError) as error:
        raise _changed(str(error)) from error


def unpack_workspace(workspace: Optional[contract.Workspace], partial: str) -> None:
    """Make a fresh directory with the workspace's files; nobody looks at it before `publish_work`.

    Raises Refusal when the archive is not the one in the capsule or one of its members would leave the tree.
    """
    try:
        if os.path.lexists(partial):
            # Left by a start of the same attempt that was cut off. It is not walked: it may be of any depth by now.
            os.rename(partial, f"{partial}.{os.urandom(8).hex()}.aside")
        os.makedirs(partial)
    except OSError as error:
        raise _unusable(str(error)) from error
    if workspace is not None:
        _extract(workspace, partial)


def publish_work(partial: str, work: str, shared: bool) -> None:  # noqa: FBT001 - one fact
    """Give the directory its name: from then on it is whole. `shared`: other nodes see it through the storage."""
    try:
        if shared:
            _sync_tree(partial)
        if os.path.isdir(work) and not os.listdir(work):
            os.rmdir(work)
        os.rename(partial, work)
    except OSError as error:
        raise _unusable(
            f"{work} is there already with content ({error}): an attempt's work is unpacked once"
        ) from error


def wait_for_work(work: str, check: Callable[[], None]) -> None:
    """Wait until the leader has unpacked. `check` is called between looks and may raise. Refuses after 15 minutes."""
    deadline = time.monotonic() + _WAIT_FOR_LEADER_S
    while not os.path.isdir(work):
        check()
        if time.monotonic() > deadline:
            raise _unusable(f"{work} did not appear within {_WAIT_FOR_LEADER_S:.0f} s: see the leader's log")
        time.sleep(0.1)


def hash_file(path: str, *, follows_link: bool = False) -> str:
    """Give a plain file's sha256 in hex. Raises OSError. Only what the console prepared may lie behind a link."""
    digest = hashlib.sha256()
    with open(open_plain(path, follows_link=follows_link), "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _extract(workspace: contract.Workspace, root: str) -> None:
    import tarfile  # noqa: PLC0415 - a job without a workspace does not pay for it

    try:
        found = hash_file(workspace.path, follows_link=True)
        if found != workspace.digest.rpartition(":")[2]:
            raise _unusable(f"{workspace.path} has sha256 {found}, the capsule says {workspace.digest}")
        with tarfile.open(workspace.path, "r:") as archive:
            links = [member for member in archive if not _extract_plain(archive, member, root)]
        for member in links:
            _make_link(member, root)
        for member in links:
            _expect_inside(os.path.join(root, member.name), member.name, root)
    except (OSError, tarfile.TarError) as error:
        raise _unusable(f"{workspace.path}: {error}") from error


def _extract_plain(archive: "tarfile.TarFile", member: "tarfile.TarInfo", root: str) -> bool:
    """Extract a directory or a file. False for a link: those are made last, so that nothing is written through one."""
    parts = member.name.split("/")
    if os.path.isabs(member.name) or ".." in parts:
        raise _unusable(f"the workspace's member {member.name!r} leaves its tree")
    path = os.path.join(root, *[part for part in parts if part not in ("", ".")])
    if member.issym():
        return False
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return True
    source = archive.extractfile(member) if member.isreg() else None
    if source is None:
        raise _unusable(f"the workspace's member {member.name!r} is neither a file, a directory nor a symbolic link")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with source, open(path, "wb") as target:
        target.writelines(iter(lambda: source.read(_CHUNK_BYTES), b""))
    os.chmod(path, _MODE_PROGRAM if member.mode & stat.S_IXUSR else _MODE_FILE)
    return True


def _make_link(member: "tarfile.TarInfo", root: str) -> None:
    path = os.path.join(root, member.name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _expect_inside(os.path.dirname(path), member.name, root)
    if os.path.isabs(member.linkname):
        raise _unusable(f"the workspace's link {member.name!r} points to {member.linkname!r}, outside of its tree")
    os.symlink(member.linkname, path)


def _expect_inside(path: str, name: str, root: str) -> None:
    top = os.path.realpath(root)
    if os.path.commonpath([top, os.path.realpath(path)]) != top:
        raise _unusable(f"the workspace's member {name!r} leads outside of its tree")


def _sync_tree(root: str) -> None:
    for directory, _, files in os.walk(root):
        for name in [*files, "."]:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                _sync(path)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _changed(what: str) -> Refusal:
    return Refusal(
        contract.EXIT_CAPSULE_CHANGED,
        "capsule_changed",
        f"the capsule was changed after it was prepared: {what}; retry the job, and check who can write to the storage",
    )


def _unusable(what: str) -> Refusal:
    return Refusal(contract.EXIT_CAPSULE_CHANGED, "workspace", f"the workspace cannot be unpacked: {what}")
