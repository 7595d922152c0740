"""Where blobs lie below the storage root."""

import hashlib
from pathlib import Path
from typing import Final

from starforge.contract.ids import Digest, parse_digest

PARTIAL: Final = "partial-"


def locate_blob(storage_root: Path, digest: Digest) -> Path:
    """Where the blob of `digest` lies, or would. Raises SpecError for what is no digest."""
    value = parse_digest(digest).removeprefix("sha256:")
    return storage_root / "blobs" / "sha256" / value[:2] / value


def locate_partial(storage_root: Path, digest: Digest, sender: str) -> Path:
    """Where what `sender` has sent of the blob waits for the rest, after a cut."""
    value = parse_digest(digest).removeprefix("sha256:")
    return locate_incoming(storage_root) / f"{partial_prefix(sender)}{value}"


def partial_prefix(sender: str) -> str:
    """How the names of everything begin that waits for `sender`."""
    return f"{PARTIAL}{hashlib.sha256(sender.encode()).hexdigest()[:32]}-"


def locate_incoming(storage_root: Path) -> Path:
    """Where uploads grow until they are whole."""
    return storage_root / "blobs" / "incoming"
