"""What this host must remember of attempts when its process ends: fences, launches under way, launches that failed.

Every record is one small file named after its attempt, written whole and durably before the call returns.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident

from starforge.contract.ids import AttemptId, parse_attempt_id
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Failure
from starforge.contract.wire import decode, encode
from starforge.durable import sync_folder
from starforge.errors import BackendUnreachable, NodeFault, SpecError


class Fences:
    """Attempts that must not start any more. A fence is never taken back: an attempt's id never comes again."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = make_private(state_dir / "fences")

    def add(self, attempt: AttemptId) -> None:
        """Fence `attempt`; it holds once this returns, also after a power cut. Raises BackendUnreachable."""
        if self.has(attempt):
            return
        try:
            write_durably(self._folder / attempt, b"")
        except NodeFault as error:
            raise BackendUnreachable(f"the fence of {attempt} was not written", why=str(error)) from error

    def has(self, attempt: AttemptId) -> bool:
        """Whether `attempt` is fenced."""
        return (self._folder / attempt).exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why an accepted launch came to nothing, in the words to show."""

    failure: Failure
    note: str
    at: float


class Verdicts:
    """Launches that were accepted and failed later; kept until cleanup, so that nobody sees them as vanished."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = make_private(state_dir / "failed-launches")

    def write(self, attempt: AttemptId, verdict: Verdict) -> None:
        """Remember durably why `attempt` never ran."""
        content = {"failure": verdict.failure.value, "note": verdict.note, "at": verdict.at}
        write_durably(self._folder / attempt, json.dumps(content).encode())

    def find(self, attempt: AttemptId) -> Verdict | None:
        """Why `attempt` never ran, where that is remembered."""
        try:
            content = json.loads((self._folder / attempt).read_bytes())
            return Verdict(failure=Failure(content["failure"]), note=str(content["note"]), at=float(content["at"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return Verdict(failure=Failure.NODE_FAULT, note=f"the record of {attempt} cannot be read", at=0.0)

    def all(self) -> dict[AttemptId, Verdict]:
        """Every verdict that is kept."""
        found = {attempt: self.find(attempt) for attempt in list_attempts(self._folder)}
        return {attempt: verdict for attempt, verdict in found.items() if verdict is not None}

    def drop(self, attempt: AttemptId) -> None:
        """Forget it."""
        (self._folder / attempt).unlink(missing_ok=True)


class PendingLaunches:
    """Launches under way, whole with their secrets: in memory alone, so that the next process goes on."""

    def __init__(self, secrets_root: Path) -> None:
        self._folder = make_private(secrets_root / ".pending")

    def write(self, request: LaunchRequest) -> None:
        """Keep `request` until it is dropped or the machine stops."""
        write_durably(self._folder / request.attempt, encode(request))

    def drop(self, attempt: AttemptId) -> None:
        """Forget it."""
        (self._folder / attempt).unlink(missing_ok=True)

    def has(self, attempt: AttemptId) -> bool:
        """Whether a launch of `attempt` is under way."""
        return (self._folder / attempt).exists()

    def attempts(self) -> list[AttemptId]:
        """Whose launches are under way."""
        return list(list_attempts(self._folder))

    def load(self, attempt: AttemptId) -> LaunchRequest:
        """The request. Raises FileNotFoundError, or SpecError when another version wrote it."""
        return decode((self._folder / attempt).read_bytes(), LaunchRequest)


def make_private(folder: Path) -> Path:
    """`folder`, made if need be, which only its owner may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def list_attempts(folder: Path) -> Iterator[AttemptId]:
    """The attempts that have an entry in `folder`."""
    for name in sorted(entry.name for entry in folder.iterdir()):
        try:
            yield parse_attempt_id(name)
        except SpecError:
            continue


def write_durably(path: Path, content: bytes) -> None:
    """Write `path` whole or not at all; it is on disk when this returns. Raises NodeFault when it cannot be."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    try:
        _write(unfinished, content)
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        # The content may be secret: the path and the reason say enough.
        raise NodeFault(
            f"{path} cannot be written",
            why=str(error.strerror),
            next_step="make room on its disk, or let this process write there",
        ) from error


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
