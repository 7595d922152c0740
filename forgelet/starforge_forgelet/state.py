"""The node's state directory: who it is, its key, its console's certificate, its epoch and its fence number.

The directory is 0700 and its files 0600. Each file is written whole or not at all.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from starforge.containers.records import write_durably
from starforge.errors import Conflict, NotFound, ProjectError

_IDENTITY: Final = "identity.json"
_KEY: Final = "node.pem"
_EPOCH: Final = "epoch.json"
_FENCE: Final = "fence.json"
_PULSE: Final = "pulse.json"
_LEGACY: Final = "legacy.json"
_LOCK: Final = ".lock"
_TRIAL: Final = ".node.pem.trial"
_T = TypeVar("_T")
_FOR_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """Who this machine is, as its console said when it joined.

    Attributes:
        node: Its name.
        server: The console's public address.
        console_certificate: The only one that is let in, as PEM; empty for a legacy node, which a token lets in.
        advertise: `HOST:PORT` where the console reaches the daemon.
        job_user: Whom jobs run as, the folder to try that in, and why there is none: see JoinAnswer.

    """

    node: str
    fleet: str
    install: str
    server: str
    console_certificate: str
    advertise: str
    storage_root: str
    storage_id: str
    ingest_url: str
    heartbeat_s: float
    job_user: str = ""
    trial_folder: str = ""
    trial_trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """`number` is the newest epoch that was taken; `nonce` names a question for the next one that has no answer yet."""

    number: int = 0
    nonce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """How the daemon's heartbeats fare, for whoever looks from outside.

    `heard_at` is when the console last heard one, by this machine's clock; `skew_s` is that clock minus the console's,
    give or take half the round trip.
    """

    epoch: int = 0
    heard_at: float | None = None
    reachable: bool = False
    trouble: str = "no heartbeat was sent yet"
    skew_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fence:
    number: int = 0


class NodeState:
    """One state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def key_file(self) -> Path:
        """Key and certificate, as PEM in one file."""
        return self.folder / _KEY

    @property
    def host_dir(self) -> Path:
        """Fences and failed launches of this machine's containers."""
        return self.folder / "host"

    def prepare(self) -> None:
        """Make the directory, for its owner alone.

        Raises:
            ProjectError: others may read it, or it cannot be made.

        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            open_to_others = self.folder.stat().st_mode & _FOR_OTHERS
        except OSError as error:
            raise ProjectError(
                f"FORGE_NODE_STATE_DIR {self.folder} cannot be used", why=str(error), next_step="name another folder"
            ) from error
        if open_to_others:
            raise ProjectError(
                f"FORGE_NODE_STATE_DIR {self.folder} is open to others",
                why="it holds this machine's credential",
                next_step=f"run 'chmod 700 {self.folder}'",
            )

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every other join of this machine away: two at once would leave the key of one and the name of the other.

        Raises:
            Conflict: one is at work.
            ProjectError: the directory cannot be used.

        """
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ProjectError(
                f"FORGE_NODE_STATE_DIR {self.folder} cannot be used", why=str(error), next_step="name another folder"
            ) from error
        with os.fdopen(descriptor, "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    "another 'forgelet join' is at work on this machine", next_step="wait for its end, then look again"
                ) from None
            yield

    def require_room(self, pem: str) -> None:
        """Raises NodeFault unless a key can be written here: a console that was asked in vain would keep a node."""
        trial = self.folder / _TRIAL
        try:
            write_durably(trial, pem.encode())
        finally:
            trial.unlink(missing_ok=True)

    def has_joined(self) -> bool:
        """Whether there is an identity."""
        return (self.folder / _IDENTITY).exists()

    def load_identity(self) -> NodeIdentity:
        """Who this machine is.

        Raises:
            NotFound: it has not joined.
            ProjectError: the file cannot be read.

        """
        identity = self._find(_IDENTITY, NodeIdentity)
        if identity is None:
            raise NotFound(
                f"this machine has not joined a console: {self.folder} holds no identity",
                next_step="run the line that the fleet's page shows, or 'forgelet join'",
            )
        return identity

    def write_identity(self, identity: NodeIdentity, pem: str, fence: int, epoch: int = 0) -> None:
        """Keep who this machine is, with the key that proves it; the last thing written is what says that it joined.

        `epoch` is the newest one that the console has given away: whoever joins again follows it, whosever it was.
        """
        self.prepare()
        before, known = self._find_readable(_IDENTITY, NodeIdentity), self._find_readable(_EPOCH, Epoch)
        again = before is not None and (before.install, before.node) == (identity.install, identity.node)
        if not again or known is None or epoch > known.number:
            self.write_epoch(Epoch(number=epoch))
        write_durably(self.key_file, pem.encode())
        self.write_fence(fence)
        self._write(_IDENTITY, identity)

    def load_pem(self) -> str:
        """Key and certificate. Raises ProjectError."""
        try:
            return self.key_file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ProjectError(f"{self.key_file} cannot be read", why=str(error), next_step="join again") from error

    def find_legacy(self) -> NodeIdentity | None:
        """Whose this machine became without joining, by the token of FORGE_NODE_TOKEN. Raises ProjectError."""
        return self._find(_LEGACY, NodeIdentity)

    def write_legacy(self, identity: NodeIdentity) -> None:
        """Keep whose it became."""
        self._write(_LEGACY, identity)

    def find_identity_version(self) -> tuple[int, int]:
        """Changes whenever the machine joins; (0, 0) when it has not."""
        try:
            found = (self.folder / _IDENTITY).stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_mtime_ns

    def load_epoch(self) -> Epoch:
        """The newest epoch, or 0 before the first. Raises ProjectError."""
        return self._find(_EPOCH, Epoch) or Epoch()

    def write_epoch(self, epoch: Epoch) -> None:
        """Keep `epoch`."""
        self._write(_EPOCH, epoch)

    def load_fence(self) -> int:
        """The highest fence number that was cleaned up for. Raises ProjectError."""
        return (self._find(_FENCE, _Fence) or _Fence()).number

    def write_fence(self, number: int) -> None:
        """Keep that everything up to `number` was cleaned up for."""
        self._write(_FENCE, _Fence(number=number))

    def tell_pulse(self, pulse: Pulse) -> None:
        """Leave `pulse` for others to read. It is only of the moment: what cannot be written is not missed."""
        unfinished = self.folder / f".{_PULSE}"
        with contextlib.suppress(OSError):
            unfinished.write_bytes(msgspec.json.encode(pulse))
            unfinished.replace(self.folder / _PULSE)

    def find_pulse(self) -> Pulse | None:
        """What a daemon last told, if one ever did."""
        return self._find_readable(_PULSE, Pulse)

    def _find_readable(self, name: str, kind: type[_T]) -> _T | None:
        """As `_find`; a damaged file counts as none, for whoever is about to replace it."""
        try:
            return self._find(name, kind)
        except ProjectError:
            return None

    def _find(self, name: str, kind: type[_T]) -> _T | None:
        path = self.folder / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise ProjectError(
                f"{path} cannot be read", why=str(error), next_step="join again; the node keeps its name"
            ) from error

    def _write(self, name: str, value: Any) -> None:  # noqa: ANN401 - any dataclass of this module
        write_durably(self.folder / name, msgspec.json.encode(value))
