"""Unpacks the workspace: all of it or none, without leaving its tree, and no more than the archive itself holds."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import TYPE_CHECKING, BinaryIO, Callable, Iterator, List, Optional

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal
from starforge.runner.verify import hash_file

if TYPE_CHECKING:
    import tarfile

_CHUNK_BYTES = 1 << 20
_WAIT_FOR_LEADER_S = 900.0
_CHECK_PERIOD_S = 0.2
_MOST_DEPTH = 128
_SHOWN_CHARACTERS = 200
_SPARSE_RECORDS = "GNU.sparse."
_MODE_FILE = 0o644
_MODE_PROGRAM = 0o755

Check = Callable[[], None]


def unpack_workspace(workspace: Optional[contract.Workspace], partial: str, files: Optional[int], check: Check) -> None:
    """Make a fresh directory with the workspace's files; nobody looks at it before `publish_work`.

    `files`: how many files and links it must hold (None: not told). `check` is called several times a second and may
    raise. Raises Refusal when the archive is not the one in the capsule, is damaged, or one of its members would leave
    the tree, is of a kind that no workspace has, or cannot be made.
    """
    try:
        if os.path.lexists(partial):
            # Left by a start of the same attempt that was cut off. It is not walked: it may be of any depth by now.
            os.rename(partial, f"{partial}.{os.urandom(8).hex()}.aside")
        os.makedirs(partial)
    except OSError as error:
        raise _unusable(str(error)) from error
    if workspace is None:
        return
    try:
        _extract(workspace, _Tree(partial, _pace(check)), files)
    except OSError as error:
        raise _unusable(f"{workspace.path} cannot be read: {error.strerror}") from error


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


def wait_for_work(work: str, check: Check) -> None:
    """Wait until the leader has unpacked. `check` is called between looks and may raise. Refuses after 15 minutes.

    An empty directory is the place that was made for it: what the leader unpacks has the resolved settings at least.
    """
    deadline = time.monotonic() + _WAIT_FOR_LEADER_S
    while not _holds_something(work):
        check()
        if time.monotonic() > deadline:
            raise _unusable(f"{work} did not appear within {_WAIT_FOR_LEADER_S:.0f} s: see the leader's log")
        time.sleep(0.1)


def _holds_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False


class _Tree:
    """The directory that members become files of. Links are made last, so that nothing is written through one."""

    def __init__(self, root: str, check: Check) -> None:
        self.check = check
        self.files = 0
        self._root = root
        self._links: List[tarfile.TarInfo] = []

    def take(self, member: "tarfile.TarInfo", archive: BinaryIO) -> None:
        """Make a directory or a file; a link is kept for `make_links`. Raises Refusal, which names the member."""
        parts = _split(member)
        try:
            if member.isdir():
                self._make_folders(parts)
                return
            self.files += 1
            if member.issym():
                self._links.append(member)
                return
            self._make_folders(parts[:-1])
            self._write(member, os.path.join(self._root, *parts), archive)
        except (OSError, ValueError) as error:
            raise _unmade(member, error) from error

    def make_links(self) -> None:
        """Make every link, then look where they lead together. Raises Refusal, which names the member."""
        for member in self._links:
            self.check()
            try:
                self._make_link(member)
            except (OSError, ValueError) as error:
                raise _unmade(member, error) from error
        for member in self._links:
            self.check()
            self._expect_inside(os.path.join(self._root, member.name), member.name)

    def _make_folders(self, parts: List[str]) -> None:
        if os.path.isdir(os.path.join(self._root, *parts)):
            return
        path = self._root
        for part in parts:
            path = os.path.join(path, part)
            try:
                os.mkdir(path)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise OSError(errno.ENOTDIR, "a file stands in the place of a folder") from None

    def _write(self, member: "tarfile.TarInfo", path: str, archive: BinaryIO) -> None:
        archive.seek(member.offset_data)
        left = member.size
        with open(path, "wb") as target:
            while left:
                self.check()
                piece = archive.read(min(_CHUNK_BYTES, left))
                if not piece:
                    raise _damaged(archive.tell(), f"the content of {_show(member.name)} is cut off")
                target.write(piece)
                left -= len(piece)
        os.chmod(path, _MODE_PROGRAM if member.mode & stat.S_IXUSR else _MODE_FILE)

    def _make_link(self, member: "tarfile.TarInfo") -> None:
        parts = _split(member)
        path = os.path.join(self._root, *parts)
        # Links of before may stand among the folders of this one by now.
        self._expect_inside(os.path.dirname(path), member.name)
        self._make_folders(parts[:-1])
        if os.path.isabs(member.linkname):
            where = f"points to {_show(member.linkname)}, outside of its tree"
            raise _unusable(f"the workspace's link {_show(member.name)} {where}")
        os.symlink(member.linkname, path)

    def _expect_inside(self, path: str, name: str) -> None:
        top = os.path.realpath(self._root)
        if os.path.commonpath([top, os.path.realpath(path)]) != top:
            raise _unusable(f"the workspace's member {_show(name)} leads outside of its tree")


def _extract(workspace: contract.Workspace, tree: _Tree, files: Optional[int]) -> None:
    found = hash_file(workspace.path, follows_link=True, check=tree.check)
    if found != workspace.digest.rpartition(":")[2]:
        raise _unusable(f"{workspace.path} has sha256 {found}, the capsule says {workspace.digest}")
    with open(workspace.path, "rb") as archive:
        room_bytes = size_bytes = os.fstat(archive.fileno()).st_size
        for member in _read_members(archive, tree.check):
            tree.check()
            room_bytes -= _expect_usual(member)
            if room_bytes < 0:
                text = f"the members up to {_show(member.name)} have more bytes than the {size_bytes} of the archive"
                raise _unusable(text)
            tree.take(member, archive)
        tree.make_links()
    if files is not None and tree.files != files:
        raise _unusable(
            f"the archive holds {tree.files} files, the job was submitted with {files}: pack and submit it again"
        )


def _read_members(archive: BinaryIO, check: Check) -> "Iterator[tarfile.TarInfo]":
    """Give each member, up to the end of the archive. Raises Refusal where that is not where the reading ends."""
    import tarfile  # noqa: PLC0415 - a job without a workspace does not pay for it

    damage = (tarfile.TarError, OSError, ValueError, ArithmeticError, LookupError, RecursionError)
    at = 0
    try:
        with tarfile.open(fileobj=archive, mode="r:") as reader:
            member = reader.next()
            while member is not None:
                at = reader.offset
                reader.members.clear()  # type: ignore[attr-defined]  # every Python has it; else each member is kept
                yield member
                member = reader.next()
            at = reader.offset
    except damage as error:
        raise _damaged(at, f"{type(error).__name__}: {error}") from error
    # A header that cannot be read ends the reading without a word, like the blocks of zeros at the end.
    _expect_zeros(archive, at, check)


def _expect_usual(member: "tarfile.TarInfo") -> int:
    """Give how many bytes the member needs of the archive. Raises Refusal for what no workspace holds."""
    if member.size < 0:
        raise _unusable(f"the workspace's member {_show(member.name)} says that it has {member.size} bytes")
    if member.issparse() or any(name.startswith(_SPARSE_RECORDS) for name in member.pax_headers):
        text = "is sparse, which a workspace cannot hold: it would unpack to more than was uploaded"
        raise _unusable(f"the workspace's member {_show(member.name)} {text}")
    if not (member.isreg() or member.isdir() or member.issym()):
        text = "is neither a file, a directory nor a symbolic link"
        raise _unusable(f"the workspace's member {_show(member.name)} {text}")
    return member.size if member.isreg() else 0


def _expect_zeros(archive: BinaryIO, at: int, check: Check) -> None:
    archive.seek(at)
    while True:
        check()
        piece = archive.read(_CHUNK_BYTES)
        if not piece:
            return
        rest = piece.lstrip(b"\0")
        if rest:
            raise _damaged(archive.tell() - len(rest), "what stands there is no member, and the end is not reached")


def _split(member: "tarfile.TarInfo") -> List[str]:
    """Give the parts of the member's path below the root. Raises Refusal for one that leaves it or is too deep."""
    parts = member.name.split("/")
    if os.path.isabs(member.name) or ".." in parts:
        raise _unusable(f"the workspace's member {_show(member.name)} leaves its tree")
    parts = [part for part in parts if part not in ("", ".")]
    if len(parts) > _MOST_DEPTH:
        text = f"lies {len(parts)} folders deep, a workspace may be {_MOST_DEPTH} deep"
        raise _unusable(f"the workspace's member {_show(member.name)} {text}")
    return parts


def _pace(check: Check) -> Check:
    """Give a check that may be called for every piece: the real one, which asks the storage, has its turn in time."""
    due = [0.0]

    def check_in_turn() -> None:
        now = time.monotonic()
        if now >= due[0]:
            due[0] = now + _CHECK_PERIOD_S
            check()

    return check_in_turn


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


def _show(name: str) -> str:
    return repr(name) if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]!r}..."


def _unmade(member: "tarfile.TarInfo", error: Exception) -> Refusal:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return _unusable(f"the workspace's member {_show(member.name)} cannot be made: {why}")


def _damaged(at: int, why: str) -> Refusal:
    return _unusable(f"the archive is damaged at byte {at}: {why}; pack and submit it again")


def _unusable(what: str) -> Refusal:
    return Refusal(contract.EXIT_CAPSULE_CHANGED, "workspace", f"the workspace cannot be unpacked: {what}")
