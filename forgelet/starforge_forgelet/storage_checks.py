"""Checks of the shared storage from this process: is it mounted, and whose is it."""

from dataclasses import dataclass
from pathlib import Path

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge_forgelet.findings import Finding, failed, passed
from starforge_forgelet.settings import NodeSettings
from starforge_forgelet.state import NodeIdentity


@dataclass(frozen=True, slots=True)
class Storage:
    """What came of looking; `owner` is (uid, gid) of the root, None when that is not known."""

    finding: Finding
    owner: tuple[int, int] | None


def check_storage(settings: NodeSettings, identity: NodeIdentity) -> Storage:
    """Whether the console's share is mounted at the console's path."""
    root, own = Path(identity.storage_root), settings.storage_root
    if own is not None and own != root:
        return Storage(
            failed("storage", f"FORGE_STORAGE_ROOT is {own} here and {root} on the console", "correct the setting"),
            None,
        )
    trouble = StorageCheck(StorageMark(root=root, content=identity.storage_id)).find_trouble()
    if trouble:
        return Storage(failed("storage", trouble, f"mount the console's share at {root}"), None)
    try:
        status = root.stat()
    except OSError as error:
        return Storage(failed("storage", f"{root}: {error.strerror}", "look at the share"), None)
    message = f"{root} is the console's share, owned by {status.st_uid}:{status.st_gid}"
    return Storage(passed("storage", message), (status.st_uid, status.st_gid))
