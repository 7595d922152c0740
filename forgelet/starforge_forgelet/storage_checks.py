"""Checks of the shared storage from this process: is it mounted, may it be written, and whose is it."""

import os
from pathlib import Path

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge_forgelet.findings import Finding, failed, passed
from starforge_forgelet.settings import NodeSettings
from starforge_forgelet.state import NodeIdentity


def check_storage(settings: NodeSettings, identity: NodeIdentity) -> Finding:
    """Whether the console's share is mounted at the console's path."""
    root, own = Path(identity.storage_root), settings.storage_root
    if own is not None and own != root:
        return failed("storage", f"FORGE_STORAGE_ROOT is {own} here and {root} on the console", "correct the setting")
    trouble = StorageCheck(StorageMark(root=root, content=identity.storage_id)).find_trouble()
    if trouble:
        return failed("storage", trouble, f"mount the console's share at {root}")
    try:
        status, mounted = root.stat(), os.statvfs(root)
    except OSError as error:
        return failed("storage", f"{root}: {error.strerror}", "look at the share")
    if mounted.f_flag & os.ST_RDONLY:
        return failed("storage", f"{root} is mounted read-only here", "mount it read-write (rw): jobs write their runs")
    message = f"{root} is the console's share, owned by {status.st_uid}:{status.st_gid}"
    return passed("storage", message)


def find_trial_trouble(identity: NodeIdentity) -> str:
    """Why there is no folder to try the storage in as the jobs' user; empty when there is one."""
    if identity.trial_trouble:
        return identity.trial_trouble
    try:
        Path(identity.trial_folder).stat()
    except OSError as error:
        return f"{identity.trial_folder}: {error.strerror}"
    return ""
