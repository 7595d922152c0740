"""Where blobs lie below the storage root."""

from pathlib import Path

from starforge.contract.ids import Digest, parse_digest


def locate_blob(storage_root: Path, digest: Digest) -> Path:
    """Where the blob of `digest` lies, or would. Raises SpecError for what is no digest."""
    value = parse_digest(digest).removeprefix("sha256:")
    return storage_root / "blobs" / "sha256" / value[:2] / value


def locate_incoming(storage_root: Path) -> Path:
    """Where uploads grow until they are whole."""
    return storage_root / "blobs" / "incoming"
