"""An install: its state directory, its storage and its default fleet, made once and recognised afterwards."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.contract.launch import Network, Secret
from starforge.durable import write_once
from starforge.mounts import find_file_system
from starforge_console.assembly.layout import StorageLayout
from starforge_console.errors import SettingsError
from starforge_console.ledger.database import Database, is_set_up, upgrade_schema
from starforge_console.ledger.fleets import Fleet, add_fact, add_fleet, find_fact, list_fleets
from starforge_console.ledger.place import Place, Server
from starforge_console.settings.console import ConsoleSettings

SCHEMAS: Final = ("ledger", "series")
INSTALL_FACT: Final = "install"
STORAGE_FACT: Final = "storage"

_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre", "gpfs", "beegfs", "afs"}
)
_FOR_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class Install:
    """`id` marks what is ours at backends; `storage_id` is what the storage root must say of itself."""

    id: str
    storage_id: str


def locate(settings: ConsoleSettings, schema: str) -> Place:
    """Where the schema lies: on the server that is named, else in a file of the state directory."""
    url = settings.paths.database_url.get_secret_value()
    return Server(Secret(url)) if url else settings.paths.console_state_dir / f"{schema}.db"


def prepare_state(settings: ConsoleSettings) -> None:
    """Make the state directory (0700) and bring both databases to this version.

    Raises:
        SettingsError: it lies on a network file system, or others may read it; or the database cannot be used.

    """
    prepare_folder(settings.paths.console_state_dir)
    for schema in SCHEMAS:
        place = locate(settings, schema)
        if isinstance(place, Path):
            os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        upgrade_schema(place, schema)


def prepare_folder(state_dir: Path) -> None:
    """Make the state directory (0700). Raises SettingsError as `prepare_state`."""
    check_local(state_dir)
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if state_dir.stat().st_mode & _FOR_OTHERS:
        raise SettingsError(
            f"FORGE_CONSOLE_STATE_DIR {state_dir} is open to others",
            why="it holds the ledger and the hashes of tokens",
            next_step=f"run 'chmod 700 {state_dir}', or name a folder that is the console's alone",
        )


def require_ledger(settings: ConsoleSettings) -> None:
    """Raises SettingsError unless a console was set up with these settings."""
    place = locate(settings, "ledger")
    if not is_set_up(place):
        raise SettingsError(
            "there is no ledger in " + (str(place.parent) if isinstance(place, Path) else "that database"),
            why="this console has not been set up, or FORGE_CONSOLE_STATE_DIR or FORGE_DATABASE_URL name another one",
            next_step="run 'starforge-console init' once",
        )


def prepare_install(ledger: Database, settings: ConsoleSettings, now: float) -> Install:
    """The install's ids, its storage root and its default fleet; what is there already stays as it is.

    Raises:
        SettingsError: the storage root is not the one that this ledger knows, or its mark cannot be read.

    """
    install_id = ledger.write_now(lambda c: add_fact(c, INSTALL_FACT, secrets.token_hex(6)))
    storage_id = _prepare_storage(ledger, settings.storage_root)
    kind = settings.local.default_fleet_kind
    if kind is not None and not ledger.read_now(list_fleets):
        network = kind.own_network or Network.BRIDGE
        fleet = Fleet(name=kind.value, kind=kind.value, network=network, user=None)
        ledger.write_now(lambda c: add_fleet(c, fleet, now))
    return Install(install_id, storage_id)


def load_install(ledger: Database, storage_root: Path) -> Install:
    """The ids of an install that was prepared before.

    Raises:
        SettingsError: it was not, or the storage root is not its own (a share that is not mounted, most often).

    """
    install_id = ledger.read_now(lambda c: find_fact(c, INSTALL_FACT))
    storage_id = ledger.read_now(lambda c: find_fact(c, STORAGE_FACT))
    if install_id is None or storage_id is None:
        raise SettingsError("this console has not been set up", next_step="run 'starforge-console init' once")
    check_storage(storage_root, storage_id)
    return Install(install_id, storage_id)


def check_local(path: Path, mounts: bytes | None = None) -> None:
    """Raises SettingsError when `path` lies on a network file system, where SQLite's WAL does not work."""
    kind = find_file_system(path, mounts)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise SettingsError(
            f"FORGE_CONSOLE_STATE_DIR {path} lies on a network file system ({kind})",
            why="the ledger's write-ahead log works on a local disk alone",
            next_step="name a folder on a local disk",
        )


def check_storage(root: Path, storage_id: str) -> None:
    """Raises SettingsError unless the storage root says that it is the one with this id."""
    found = _read_mark(root)
    if found == storage_id:
        return
    mark = StorageLayout(root).mark
    raise SettingsError(
        f"FORGE_STORAGE_ROOT {root} is not this console's storage",
        why=f"{mark} is missing" if found is None else f"{mark} says {found}, and the ledger knows {storage_id}",
        next_step="mount the share, or correct the setting",
    )


def _prepare_storage(ledger: Database, root: Path) -> str:
    known = ledger.read_now(lambda c: find_fact(c, STORAGE_FACT))
    if known is not None:
        check_storage(root, known)
        return known
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    storage_id = _read_mark(root) or _write_mark(root)
    return ledger.write_now(lambda c: add_fact(c, STORAGE_FACT, storage_id))


def _read_mark(root: Path) -> str | None:
    mark = StorageLayout(root).mark
    try:
        return mark.read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{mark} cannot be read", why=str(error), next_step="mend the storage, or put that file back from a copy"
        ) from error


def _write_mark(root: Path) -> str:
    """A new storage id, durably; that of another console which was faster on a shared root."""
    mark = StorageLayout(root).mark
    write_once(mark, f"{secrets.token_hex(16)}\n".encode("ascii"), 0o444)
    return mark.read_text(encoding="ascii").strip()
