"""The messages about a job's files on the storage: its outputs and checkpoints, folder by folder.

Paths begin with the folder of the run: `out` (`out-N` since the attempt before N was lost), or `checkpoints/ATTEMPT`.
"""

from typing import Literal

from pydantic import Field

from starforge.contract.api import Answer


class FileEntry(Answer):
    """One entry of a folder. Links are named and never followed."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    bytes: int | None = Field(default=None, description="of a file")
    modified_at: float | None = None
    sha256: str | None = Field(default=None, description="as the attempt told it of a file of this size")


class FileList(Answer):
    """`GET /jobs/{id}/files?path=&limit=&cursor=`: a folder's entries by name. `next` continues; None at the end."""

    path: str
    items: tuple[FileEntry, ...]
    next: str | None = None
    unlisted: int = Field(default=0, description="entries whose names are no text")
