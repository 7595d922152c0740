"""Who is signed in where: the credential on this machine, and what was learned at sign-in."""

import json
import os
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starforge.errors import ProjectError, SignInRequired

SERVER_VARIABLE: Final = "SF_SERVER"
TOKEN_VARIABLE: Final = "SF_TOKEN"  # noqa: S105 - the name of a variable, not its content
CONFIG_DIR_VARIABLE: Final = "SF_CONFIG_DIR"
_CREDENTIAL_FILE: Final = "credential.json"
_REGISTRY_FILE: Final = "registry.json"


@dataclass(frozen=True, slots=True)
class Session:
    """A server and the token for it."""

    server: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Registry:
    """The server's profiles as they were at the last sign-in."""

    profiles: Sequence[Mapping[str, Any]]
    fetched_at: float

    @property
    def age_s(self) -> float:
        """How long ago that was."""
        return max(0.0, time.time() - self.fetched_at)


def find_config_dir() -> Path:
    """Where `sf` keeps what belongs to this user."""
    named = os.environ.get(CONFIG_DIR_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME")
    return Path(base or Path.home() / ".config") / "starforge"


def load_session() -> Session:
    """The present session: SF_SERVER and SF_TOKEN first, then what `sf login` kept.

    A kept token is sent to the server that it was kept for, and to no other.

    Raises:
        SignInRequired: there is none.
        ProjectError: the kept file is damaged, or others can read it.

    """
    kept = _find_kept()
    server = os.environ.get(SERVER_VARIABLE) or (kept.server if kept else None)
    token = os.environ.get(TOKEN_VARIABLE)
    if server is None:
        raise SignInRequired("no server is known", next_step="sf login --server URL, or set SF_SERVER and SF_TOKEN")
    server = server.rstrip("/")
    if not token and kept is not None and kept.server == server:
        token = kept.token
    if not token:
        next_step = f"sf login --server {server}, or set SF_TOKEN"
        raise SignInRequired(f"nobody is signed in at {server}", next_step=next_step)
    return Session(server, token)


def save_session(session: Session) -> Path:
    """Keep `session` for this user alone (0600); gives the file."""
    return _write(_CREDENTIAL_FILE, {"server": session.server, "token": session.token})


def forget_session() -> str | None:
    """Remove the kept session and registry; gives the server it was for, None when there was none."""
    kept = _find_kept()
    for name in (_CREDENTIAL_FILE, _REGISTRY_FILE):
        (find_config_dir() / name).unlink(missing_ok=True)
    return kept.server if kept else None


def save_registry(profiles: Sequence[Mapping[str, Any]]) -> None:
    """Keep the server's profiles, so that checking and `--dry-run` need no network."""
    _write(_REGISTRY_FILE, {"profiles": list(profiles), "fetched_at": time.time()})


def find_registry() -> Registry | None:
    """The kept profiles, or None before the first sign-in."""
    content = _find_json(_REGISTRY_FILE)
    if content is None:
        return None
    return Registry(tuple(content["profiles"]), float(content["fetched_at"]))


def _find_kept() -> Session | None:
    content = _find_json(_CREDENTIAL_FILE)
    return None if content is None else Session(str(content["server"]), str(content["token"]))


def _find_json(name: str) -> dict[str, Any] | None:
    file = find_config_dir() / name
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = json.loads(opened.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        next_step = f"remove it and sign in again: rm {file}"
        raise ProjectError(f"{file} cannot be read", why=str(error), next_step=next_step) from error
    if name == _CREDENTIAL_FILE and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ProjectError(f"others can read {file}", why="it holds a token", next_step=f"chmod 600 {file}")
    if not isinstance(content, dict):
        raise ProjectError(f"{file} is damaged", next_step="sign in again with `sf login`")
    return content


def _write(name: str, content: Mapping[str, Any]) -> Path:
    folder = find_config_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")  # 0600 from the start
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
    Path(temporary).replace(folder / name)
    return folder / name
