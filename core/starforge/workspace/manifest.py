"""Which files of a project travel with a job: git's own answer, or a walk with the same rules where there is no git."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from starforge.errors import ProjectError
from starforge.recipes.files import load_file
from starforge.workspace.clone import CLONE_FILE, Clone, find_clone
from starforge.workspace.confidential import find_secret_name
from starforge.workspace.git import GitStanding, Repository, find_repository
from starforge.workspace.ignore import BY_DEFAULT, IGNORE_FILE, Rules, parse_rules

_SUBMODULE_MODE: Final = "160000 "


class Entry(NamedTuple):  # a tuple is made in a third of the time, and there are thousands
    """A file or a link that travels. `path` is relative, with slashes; bytes that are no UTF-8 are surrogates.

    `stamp` changes whenever the file was written: its place on the disk and its times, in nanoseconds. `wanted`: the
    project's own rules take it along whatever it holds.
    """

    path: str
    bytes: int
    executable: bool = False
    link: str | None = None
    stamp: tuple[int, ...] = ()
    wanted: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A path that cannot travel, and why."""

    path: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """The refusal as `sf pack --json` prints it."""
        return {"path": self.path, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is to be packed, sorted by the bytes of the path."""

    root: Path
    standing: GitStanding
    repository: Repository | None
    entries: tuple[Entry, ...]
    refused: tuple[Refusal, ...]
    clone: Clone | None = None

    @property
    def content_bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.bytes for entry in self.entries)


class _Listing(NamedTuple):
    tracked: set[str]
    untracked: set[str]
    refused: list[Refusal]


def load_manifest(root: Path) -> Manifest:
    """The files below `root` that travel with a job, and those that should but cannot.

    Nothing is opened. A tracked file that was deleted does not travel (the tree is then dirty).

    Raises:
        ProjectError: git refuses to speak about the folder, or `root` cannot be read.

    """
    root = Path(os.path.realpath(root))
    standing, repository = find_repository(root)
    clone = find_clone(root)
    if clone is not None and (repository is None or repository.prefix):
        standing, repository = GitStanding.NO_REPOSITORY, None  # one around the clone says nothing of it
    if standing is GitStanding.DUBIOUS_OWNERSHIP:
        raise ProjectError(
            f"git refuses to read {root}",
            why="the folder belongs to another user (dubious ownership)",
            next_step=f"if you trust it: git config --global --add safe.directory '{root}'",
        )
    own = load_own_rules(root)
    listing = _list_repository(repository) if repository else _walk_folder(root, own)
    if clone is not None and repository is None:
        listing.tracked.update(clone.files)
    untracked_rules = parse_rules(BY_DEFAULT).extended(own)
    # Most projects have no rules of their own: a call for each of thousands of files would be felt.
    paths = {path for path in listing.tracked if not own.find_file_answer(path)} if own.rules else set(listing.tracked)
    paths |= {path for path in listing.untracked if not untracked_rules.find_file_answer(path)}
    paths.discard(CLONE_FILE)
    refused = [item for item in listing.refused if not untracked_rules.find_file_answer(item.path)]
    entries = []
    for path in sorted(paths, key=os.fsencode):
        found = _find_entry(str(root), path, own)
        if isinstance(found, Refusal):
            refused.append(found)
        elif found is not None:
            entries.append(found)
    ordered = tuple(sorted(refused, key=lambda item: os.fsencode(item.path)))
    manifest = Manifest(root=root, standing=standing, repository=repository, entries=tuple(entries), refused=ordered)
    return replace(manifest, clone=clone)


def load_own_rules(root: Path) -> Rules:
    """The rules of the project's `.sfignore`; none when there is no such file."""
    try:
        content = load_file(root / IGNORE_FILE)
    except FileNotFoundError:
        return Rules()
    except OSError as error:
        raise ProjectError(
            f"{root / IGNORE_FILE} cannot be read", why=str(error), next_step="mend the file, or let yourself read it"
        ) from error
    return parse_rules(os.fsdecode(content).splitlines())


def _list_repository(repository: Repository) -> _Listing:
    listing = _Listing(set(), set(), [])
    inner = []
    others = repository.ask_meanwhile("ls-files", "--others", "--exclude-standard", "-z")
    for record in _split(repository.ask("ls-files", "--cached", "--stage", "-z")):
        facts, _, path = record.partition("\t")
        if facts.startswith(_SUBMODULE_MODE):
            inner.append((path, listing.tracked))
        else:
            listing.tracked.add(path)
    for path in _split(others()):
        if path.endswith("/"):
            inner.append((path.rstrip("/"), listing.untracked))
        else:
            listing.untracked.add(path)
    for folder, into in inner:
        if _is_folder(repository.root / folder):
            _add_inner(repository.root, folder, into, listing.refused)
    listing.refused.extend(_find_special(repository, listing.tracked | listing.untracked))
    return listing


def _add_inner(root: Path, folder: str, into: set[str], refused: list[Refusal]) -> None:
    """Adds a repository inside the repository, a submodule or not, with its own answer about what belongs to it."""
    standing, inner = find_repository(root / folder)
    if inner is None or inner.prefix:
        with os.scandir(root / folder) as entries:
            empty = not any(entries)
        reason = (
            "a submodule that is not checked out: run git submodule update --init"
            if empty
            else (f"a repository inside the project that git cannot read ({standing})")
        )
        refused.append(Refusal(folder, reason))
        return
    listing = _list_repository(inner)
    into.update(f"{folder}/{path}" for path in listing.tracked | listing.untracked)
    refused.extend(Refusal(f"{folder}/{item.path}", item.reason) for item in listing.refused)


def _find_special(repository: Repository, paths: Iterable[str]) -> Iterator[Refusal]:
    """Sockets, FIFOs and devices beside the listed files: git does not list them, so they would be missing silently."""
    folders = {""} | {path.rpartition("/")[0] for path in paths}
    found = []
    for folder in folders:
        if _is_folder(repository.root / folder):
            with os.scandir(repository.root / folder) as entries:
                special = (entry for entry in entries if not _is_ordinary(entry))
                found += [f"{folder}/{entry.name}".removeprefix("/") for entry in special]
    if not found:
        return
    names = b"\0".join(os.fsencode(path) for path in found)
    answer = repository.ask_either("check-ignore", "-z", "--stdin", stdin=names)
    ignored = set(_split(answer))
    for path in found:
        if path not in ignored:
            yield Refusal(path, _describe_special((repository.root / path).lstat().st_mode))


def _is_ordinary(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink()


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _walk_folder(root: Path, own: Rules) -> _Listing:
    listing = _Listing(set(), set(), [])
    _walk_into(root, "", parse_rules(BY_DEFAULT).extended(own), listing)
    return listing


def _walk_into(root: Path, folder: str, rules: Rules, listing: _Listing) -> None:
    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except OSError as error:
        listing.refused.append(Refusal(folder or ".", f"cannot be listed: {error.strerror}"))
        return
    if any(entry.name == ".gitignore" and entry.is_file() for entry in entries):
        lines = os.fsdecode((root / folder / ".gitignore").read_bytes()).splitlines()
        rules = rules.extended(parse_rules(lines, folder))
    for entry in entries:
        path = folder + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or rules.find_answer(path, is_folder=is_folder):
            continue
        if is_folder:
            _walk_into(root, path + "/", rules, listing)
        elif _is_ordinary(entry):
            listing.untracked.add(path)
        else:
            listing.refused.append(Refusal(path, _describe_special(entry.stat(follow_symlinks=False).st_mode)))


def _find_entry(root: str, path: str, own: Rules) -> Entry | Refusal | None:
    full = f"{root}/{path}"
    try:
        status = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Refusal(path, f"cannot be read: {error.strerror}")
    if stat.S_ISLNK(status.st_mode):
        return _check_link(Path(root), path)
    if not stat.S_ISREG(status.st_mode):
        return Refusal(path, _describe_special(status.st_mode))
    wanted = bool(own.rules) and own.find_file_answer(path) is False
    kind = find_secret_name(path)
    if kind is not None and not wanted:
        reason = f"looks like a secret ({kind}): ignore it, or write !{path} into {IGNORE_FILE} to take it along"
        return Refusal(path, reason)
    stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return Entry(path, status.st_size, executable=bool(status.st_mode & 0o100), stamp=stamp, wanted=wanted)


def _check_link(root: Path, path: str) -> Entry | Refusal:
    target = os.readlink(root / path)  # noqa: PTH115 - Path would rewrite the target's text
    if target.startswith("/"):
        return Refusal(path, f"a link to an absolute path ({target}): in the job that path is another one")
    lexical = os.path.normpath(os.path.join(os.path.dirname(path), target))  # noqa: PTH118, PTH120 - text, not a Path
    real = os.path.realpath(root / path)
    if lexical.split("/", 1)[0] == ".." or not Path(real).is_relative_to(root):
        return Refusal(path, f"a link that leaves the project ({target})")
    return Entry(path, 0, link=target)


def _describe_special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a FIFO cannot be packed"
    if stat.S_ISSOCK(mode):
        return "a socket cannot be packed"
    return "neither a file, a folder nor a link"


def _split(answer: bytes) -> list[str]:
    return [os.fsdecode(part) for part in answer.split(b"\0") if part]
