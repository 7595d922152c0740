"""Packs a manifest: one tar whose bytes depend on names, contents and executable bits alone."""

import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Final, Protocol

from starforge.contract.ids import Digest
from starforge.errors import PackError
from starforge.wording import count_of, describe_bytes
from starforge.workspace.confidential import find_secret
from starforge.workspace.ignore import IGNORE_FILE
from starforge.workspace.manifest import Entry, Manifest, Refusal

DEFAULT_LIMIT_BYTES: Final = 1 << 30
_BLOCK: Final = 512
_RECORD: Final = 10_240
_CHUNK_BYTES: Final = 1 << 20
_IN_MEMORY_BYTES: Final = 8 << 20
_LARGEST_SHOWN: Final = 10
_REFUSED_SHOWN: Final = 20
_READINGS: Final = 2
_PLAIN_NAME: Final = 100
_PLAIN_BYTES: Final = 1 << 33
"""Names and sizes that fit a plain header; others take what tarfile makes of them."""
_SIZE: Final = 124
_SUM: Final = 148
_TO_SUM: Final = _SUM - _SIZE - 11


class Sink(Protocol):
    """Where the tar's bytes go."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One member of the tar. A link's `sha256` is that of its target's text."""

    path: str
    bytes: int
    mode: int
    sha256: str
    link: str | None = None

    def to_json(self) -> dict[str, str | int]:
        """The member as `sf pack --json` prints it."""
        members: dict[str, str | int] = {"path": in_utf8(self.path), "bytes": self.bytes, "mode": f"{self.mode:04o}"}
        members["sha256"] = self.sha256
        return members if self.link is None else {**members, "link": in_utf8(self.link)}


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed workspace: `digest` and `bytes` are those of the plain tar."""

    digest: Digest
    bytes: int
    files: tuple[PackedFile, ...]


def pack_manifest(
    manifest: Manifest, sink: Sink | None = None, progress: Callable[[int], object] = lambda _bytes: None
) -> Packed:
    """Write the plain tar of `manifest` into `sink` (None: compute the digest alone).

    The same names, contents and executable bits give the same bytes, whatever the path, times, owners, umask, locale
    and machine. `progress` is called with the count of content bytes just read.

    Raises:
        PackError: a file cannot be read, or changes each time it is read; names it. What `sink` got is then of no use.
        SecretsFound: files hold secrets; `sink` got none of their bytes.

    """
    for _ in range(_READINGS):
        try:
            return _pack_once(manifest, sink, progress)
        except _Changed as error:
            changed = error
            if sink is not None:  # what a sink got cannot be taken back
                break
    raise changed


class SecretsFound(PackError):
    """Files hold secrets: each is among `refused`, with what it holds and where, never the value."""

    def __init__(self, refused: Sequence[Refusal]) -> None:
        files = "a file holds" if len(refused) == 1 else f"{len(refused)} files hold"
        shown = [f"{item.path}: {item.reason}" for item in refused[:_REFUSED_SHOWN]]
        super().__init__(
            f"{files} what nobody else may know",
            why="; ".join(shown) + (" …" if len(shown) < len(refused) else ""),
            next_step="take it out, or leave the file out with .gitignore or .sfignore",
            path=refused[0].path,
        )
        self.refused = tuple(refused)


def build_header(path: str, size: int, mode: int) -> bytes:
    """A file's header in the tar: times and owners are zero. Pure."""
    if path.isascii() and len(path) <= _PLAIN_NAME and size < _PLAIN_BYTES:
        return _build_plain_header(path.encode("ascii"), size, mode)
    member = tarfile.TarInfo(in_utf8(path))
    member.size, member.mode = size, mode
    return _encode(member)


def in_utf8(path: str) -> str:
    """A path of this machine as UTF-8 has it: the same on every machine, whatever its locale's encoding is."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def check_manifest(manifest: Manifest, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
    """Refuse what cannot be packed.

    Raises:
        PackError: paths were refused, nothing is left to pack, or it is larger than `limit_bytes`.

    """
    if manifest.refused:
        raise PackError(
            f"{count_of(len(manifest.refused), 'path')} cannot be packed",
            why="; ".join(f"{item.path}: {item.reason}" for item in manifest.refused[:_REFUSED_SHOWN]),
            next_step="mend them, or name them in .gitignore or .sfignore",
        )
    if not manifest.entries:
        raise PackError(f"{manifest.root} holds no file to pack", next_step="look at .gitignore and .sfignore")
    if manifest.content_bytes > limit_bytes:
        largest = sorted(manifest.entries, key=lambda entry: -entry.bytes)[:_LARGEST_SHOWN]
        raise PackError(
            f"the workspace has {describe_bytes(manifest.content_bytes)}, {describe_bytes(limit_bytes)} are allowed",
            why="largest: " + ", ".join(f"{entry.path} ({describe_bytes(entry.bytes)})" for entry in largest),
            next_step="name what jobs do not need in .sfignore, or raise pack_limit_mib in starforge.yaml",
        )


def find_unreadable(manifest: Manifest) -> Iterator[Refusal]:
    """Every file of the manifest that cannot be opened."""
    for entry in manifest.entries:
        if entry.link is None and not os.access(manifest.root / entry.path, os.R_OK):
            yield Refusal(entry.path, "cannot be read: permission denied")


class _Changed(PackError):
    """A file changed while it was read."""


@dataclass(frozen=True, slots=True)
class _Packing:
    """One reading of all files."""

    tar: "_Tar"
    root: Path
    progress: Callable[[int], object]
    secrets: list[Refusal]


def _pack_once(manifest: Manifest, sink: Sink | None, progress: Callable[[int], object]) -> Packed:
    packing = _Packing(_Tar(sink), manifest.root, progress, [])
    files = [_add(packing, entry) for entry in manifest.entries]
    if packing.secrets:
        raise SecretsFound(packing.secrets)
    packing.tar.finish()
    return Packed(packing.tar.digest, packing.tar.bytes, tuple(files))


def _add(packing: _Packing, entry: Entry) -> PackedFile:
    if entry.link is not None:
        packing.tar.add_link(entry.path, entry.link)
        return PackedFile(entry.path, 0, 0o777, hashlib.sha256(os.fsencode(entry.link)).hexdigest(), entry.link)
    try:
        return _add_file(packing, entry)
    except OSError as error:
        raise PackError(
            f"{entry.path} cannot be read",
            why=error.strerror or str(error),
            next_step="let yourself read it, or leave it out with .sfignore",
            path=entry.path,
        ) from error


def _add_file(packing: _Packing, entry: Entry) -> PackedFile:
    path, mode, tar = entry.path, 0o755 if entry.executable else 0o644, packing.tar
    for _ in range(_READINGS):
        with _open(packing.root / path) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise PackError(f"{path} is no longer a file", next_step="pack again", path=path)
            if before.st_size > _IN_MEMORY_BYTES:
                return _stream(packing, file, (path, mode, before))
            content = file.read(before.st_size + 1)
            if _same(before, os.fstat(file.fileno())) and len(content) == before.st_size:
                if not entry.wanted:
                    _look_into(packing, path, content)
                tar.add_header(path, len(content), mode)
                tar.write(content)
                tar.pad(len(content))
                packing.progress(len(content))
                return PackedFile(path, len(content), mode, hashlib.sha256(content).hexdigest())
    raise _changing(path)


def _look_into(packing: _Packing, path: str, content: bytes) -> None:
    """Note a secret in the file. Raises SecretsFound at once where its bytes would go somewhere."""
    found = find_secret(content)
    if found is None:
        return
    way_out = f"take it out, or write !{path} into {IGNORE_FILE} if it is none"
    packing.secrets.append(Refusal(path, f"line {found.line} holds {found.kind}: {way_out}"))
    if packing.tar.has_sink:
        raise SecretsFound(packing.secrets)


def _stream(packing: _Packing, file: FileIO, member: tuple[str, int, os.stat_result]) -> PackedFile:
    """Adds a large file piece by piece. What was written cannot be taken back."""
    path, mode, before = member
    tar, sha = packing.tar, hashlib.sha256()
    tar.add_header(path, before.st_size, mode)
    left = before.st_size
    while left and (chunk := file.read(min(_CHUNK_BYTES, left))):
        sha.update(chunk)
        tar.write(chunk)
        packing.progress(len(chunk))
        left -= len(chunk)
    if left or not _same(before, os.fstat(file.fileno())):
        raise _changing(path)
    tar.pad(before.st_size)
    return PackedFile(path, before.st_size, mode, sha.hexdigest())


def _open(path: Path) -> FileIO:
    return FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


def _changing(path: str) -> _Changed:
    next_step = "wait until it is written, or name it in .sfignore"
    return _Changed(f"{path} changes while it is read", next_step=next_step, path=path)


class _Tar:
    """Writes members one after the other, and hashes what it writes."""

    def __init__(self, sink: Sink | None) -> None:
        self._sink = sink
        self._sha = hashlib.sha256()
        self.bytes = 0

    @property
    def has_sink(self) -> bool:
        """Whether what is written goes anywhere."""
        return self._sink is not None

    @property
    def digest(self) -> Digest:
        return Digest("sha256:" + self._sha.hexdigest())

    def write(self, content: bytes) -> None:
        self._sha.update(content)
        self.bytes += len(content)
        if self._sink is not None:
            self._sink.write(content)

    def add_header(self, path: str, size: int, mode: int) -> None:
        self.write(build_header(path, size, mode))

    def add_link(self, path: str, target: str) -> None:
        member = tarfile.TarInfo(in_utf8(path))
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, in_utf8(target), 0o777
        self.write(_encode(member))

    def pad(self, size: int) -> None:
        self.write(b"\0" * (-size % _BLOCK))

    def finish(self) -> None:
        self.write(b"\0" * (2 * _BLOCK))
        self.write(b"\0" * (-self.bytes % _RECORD))


def _build_plain_header(name: bytes, size: int, mode: int) -> bytes:
    """The same bytes that tarfile makes, whose own way takes as long as all the rest for thousands of small files."""
    before, after, total = _load_blank(mode)
    length = b"%011o" % size
    head = name.ljust(_PLAIN_NAME, b"\0") + before + length
    return head + after[:_TO_SUM] + b"%06o\0" % (total + sum(name) + sum(length)) + after[_TO_SUM + 7 :]


@cache
def _load_blank(mode: int) -> tuple[bytes, bytes, int]:
    """A header without name, size and sum: what lies between name and size, what follows, and the sum of its bytes."""
    member = tarfile.TarInfo("")
    member.mode = mode
    blank = bytearray(_encode(member))
    blank[_SIZE : _SIZE + 11] = bytes(11)
    blank[_SUM : _SUM + 8] = b" " * 8
    return bytes(blank[_PLAIN_NAME:_SIZE]), bytes(blank[_SIZE + 11 :]), sum(blank)


def _encode(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
