"""Asks git, with an environment and a configuration that do not depend on whose machine it is."""

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, TypeVar

from starforge.errors import ProjectError

_TIMEOUT_S: Final = 120
_TOLD_BYTES: Final = 4096
_KEPT_VARIABLES: Final = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT", "USERPROFILE", "XDG_CONFIG_HOME")
_OPTIONS: Final = (
    *("-c", "safe.directory=*"),  # asked only after git itself, with the user's own configuration, trusted the folder
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "color.ui=false"),
    *("-c", "submodule.recurse=false"),
    "--no-optional-locks",
)

T = TypeVar("T")


class GitStanding(StrEnum):
    """What git says of a folder."""

    REPOSITORY = "repository"
    NO_REPOSITORY = "no_repository"
    NO_GIT = "no_git"
    DUBIOUS_OWNERSHIP = "dubious_ownership"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository's working tree as seen from `root`, which may be any folder in it."""

    root: Path
    prefix: str
    """`root` inside the repository: empty, or a path that ends in a slash."""
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What git's environment has beside ours: an index and a store of objects of one's own."""

    def ask(self, *args: str) -> bytes:
        """What git prints for `args`, run in `root`. Raises ProjectError when git does not end with 0."""
        return self.ask_either(*args, also=())

    def ask_either(self, *args: str, stdin: bytes = b"", also: tuple[int, ...] = (1,)) -> bytes:
        """As `ask`, for commands that say "none" by one of the exit codes `also`."""
        done = _run(self.root, *_OPTIONS, *args, env={**clean_environment(), **self.variables}, stdin=stdin)
        if done.returncode not in {0, *also}:
            why = done.stderr.decode(errors="replace").strip() or f"it ended with {done.returncode}"
            raise _failed(self.root, args[0], why)
        return done.stdout

    def ask_start(self, *args: str, limit_bytes: int) -> bytes:
        """As `ask`, at most so many bytes of it: git is ended where it would print more."""
        argv = ["git", *_OPTIONS, *args]
        with tempfile.TemporaryFile() as told, _start(self, argv, told) as process:
            clock = threading.Timer(_TIMEOUT_S, process.kill)
            clock.start()
            try:
                content = (process.stdout or told).read(limit_bytes + 1)
                if len(content) > limit_bytes:
                    process.kill()
                    return content[:limit_bytes]
                code = process.wait()
            finally:
                clock.cancel()
            told.seek(0)
            why = told.read(_TOLD_BYTES).decode(errors="replace").strip() or f"it ended with {code}"
        if code != 0:
            raise _failed(self.root, args[0], why)
        return content

    def ask_meanwhile(self, *args: str) -> Callable[[], bytes]:
        """As `ask`, while the caller goes on: git's answer, or the error, comes of what this gives."""
        return _begin(lambda: self.ask(*args))

    def find_meanwhile(self, *args: str) -> Callable[[], str | None]:
        """As `find`, while the caller goes on: git's answer comes of what this gives."""
        return _begin(lambda: self.find(*args))

    def find(self, *args: str) -> str | None:
        """One line that git prints for `args`, or None when it ends with an error or prints nothing."""
        done = _run(self.root, *_OPTIONS, *args, env=clean_environment())
        text = os.fsdecode(done.stdout).rstrip("\n")
        return text if done.returncode == 0 and text else None


def _begin(work: Callable[[], T]) -> Callable[[], T]:
    """Do `work` in a thread of its own; what this gives waits for the end, and gives or raises what came of it."""
    came: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            came.append(work())
        except Exception as error:  # noqa: BLE001 - the thread's outermost frame: whoever waits gets it
            failed.append(error)

    thread = threading.Thread(target=run, name="git")
    thread.start()

    def wait() -> T:
        thread.join()
        if failed:
            raise failed[0]
        return came[0]

    return wait


def _start(repository: Repository, argv: list[str], told: IO[bytes]) -> subprocess.Popen[bytes]:
    env = {**clean_environment(), **repository.variables}
    return subprocess.Popen(  # noqa: S603 - argv is ours, without a shell
        argv, cwd=repository.root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=told
    )


def _failed(root: Path, command: str, why: str) -> ProjectError:
    next_step = f"mend what git says: see `git -C {root} status`"
    return ProjectError(f"git {command} failed in {root}", why=why, next_step=next_step)


def find_repository(root: Path) -> tuple[GitStanding, Repository | None]:
    """The repository that `root` lies in.

    Raises:
        ProjectError: git is there and its answer is none that is known.

    """
    if shutil.which("git") is None:
        return GitStanding.NO_GIT, None
    own = clean_environment(own_configuration=True)
    done = _run(root, "rev-parse", "--is-inside-work-tree", "--show-prefix", env=own)
    if done.returncode == 0:
        inside, _, prefix = os.fsdecode(done.stdout).partition("\n")
        if inside == "true":
            return GitStanding.REPOSITORY, Repository(root, prefix.removesuffix("\n"))
        return GitStanding.NO_REPOSITORY, None
    message = done.stderr.decode(errors="replace")
    if "dubious ownership" in message or "safe.directory" in message:
        return GitStanding.DUBIOUS_OWNERSHIP, None
    if "not a git repository" in message or "must be run in a work tree" in message:
        return GitStanding.NO_REPOSITORY, None
    raise ProjectError(
        f"git cannot be asked about {root}",
        why=message.strip(),
        next_step=f"mend what git says: see `git -C {root} status`",
    )


def start_repository(root: Path) -> None:
    """Make a repository in `root`, with the user's own configuration. Raises ProjectError when git refuses."""
    _run_as_user(root, "init", "--quiet")


def commit_all(root: Path, subject: str) -> str:
    """Commit everything in `root` and give the commit. Works where no identity is configured; runs no hook."""
    _run_as_user(root, "add", "--all", ".")
    identity = {} if _has_identity(root) else _FALLBACK_IDENTITY
    quiet = ("-c", "commit.gpgSign=false", "-c", f"core.hooksPath={os.devnull}")
    _run_as_user(root, *quiet, "commit", "--quiet", "--message", subject, more=identity)
    return Repository(root, "").ask("rev-parse", "HEAD").decode().strip()


_FALLBACK_IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "StarForge",
    "GIT_AUTHOR_EMAIL": "starforge@localhost",
    "GIT_COMMITTER_NAME": "StarForge",
    "GIT_COMMITTER_EMAIL": "starforge@localhost",
}


def _has_identity(root: Path) -> bool:
    strict = ("-c", "user.useConfigOnly=true")
    done = _run(root, *strict, "var", "GIT_COMMITTER_IDENT", env=clean_environment(own_configuration=True))
    return done.returncode == 0


def _run_as_user(root: Path, *args: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
    done = _run(root, *args, env={**clean_environment(own_configuration=True), **more})
    if done.returncode != 0:
        raise ProjectError(
            f"git refused to make the first commit in {root}",
            why=done.stderr.decode(errors="replace").strip(),
            next_step="mend what git says, or commit by hand",
        )


def clean_environment(*, own_configuration: bool = False) -> dict[str, str]:
    """An environment for git: no `GIT_` variable of the caller's, messages in English, nothing asked of the user."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    ours = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
    if own_configuration:
        return {**kept, **ours}
    return {**kept, **ours, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}


def _run(root: Path, *args: str, env: dict[str, str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - argv is ours, without a shell
            ["git", *args],  # noqa: S607 - the user's own git, found on PATH
            cwd=root,
            env=env,
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProjectError(
            f"git did not answer within {_TIMEOUT_S} s in {root}",
            next_step=f"see whether `git -C {root} status` ends, and which lock or disk it waits for",
        ) from error
