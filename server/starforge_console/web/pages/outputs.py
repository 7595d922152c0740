"""What a job left, on its page: folders to look into, and files, folders and checkpoints to keep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Header, Query, Request
from starlette.datastructures import QueryParams
from starlette.responses import Response

from starforge.contract.files import FileEntry
from starforge.contract.results import CheckpointView
from starforge.errors import StarForgeError
from starforge_console.web.attempts import rate_checkpoints
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.files import load_folder, name_checkpoint, parse_name, send_file, send_folder
from starforge_console.web.pages.job_view import JobPage
from starforge_console.web.pages.visit import Signed

ENTRIES_SHOWN: Final = 100
PATH_LENGTH: Final = 4096
ARTIFACTS_SHOWN: Final = 200

router = APIRouter(include_in_schema=False)

Path = Annotated[str, Query(min_length=1, max_length=PATH_LENGTH)]
Part = Annotated[str | None, Header(alias="Range", max_length=200)]
Tag = Annotated[str | None, Header(alias="If-Range", max_length=200)]


@dataclass(frozen=True, slots=True)
class FolderView:
    """A folder of the job. `crumbs` are the folders that lead to it, each with its path."""

    path: str
    crumbs: tuple[tuple[str, str], ...]
    entries: tuple[FileEntry, ...]
    following: str | None
    unlisted: int

    def place(self, entry: FileEntry) -> str:
        """The entry's path, as a part of an address."""
        return urlencode({"path": f"{self.path}/{entry.name}" if self.path else entry.name})

    def inside(self, entry: FileEntry) -> str:
        """The address's part that looks into the entry."""
        return urlencode({"folder": f"{self.path}/{entry.name}" if self.path else entry.name})


@router.get("/jobs/{job_id}/file")
async def keep_file(  # noqa: PLR0913, PLR0917 - one parameter a part of the request
    services: Services,
    visit: Signed,
    request: Request,
    job_id: str,
    path: Path,
    part: Part = None,
    tag: Tag = None,
) -> Response:
    """A file of the job, for the browser to keep."""
    return await send_file(services, request, (job_id, path), (visit.user, part, tag))


@router.get("/jobs/{job_id}/archive")
async def keep_folder(services: Services, visit: Signed, request: Request, job_id: str, path: Path) -> Response:
    """A folder or a checkpoint of the job as one tar, for the browser to keep."""
    return await send_folder(services, request, (job_id, path), visit.user)


async def load_outputs_part(services: ApiServices, page: JobPage, query: QueryParams) -> dict[str, Any]:
    """What the view of outputs shows beside the page: its checkpoints rated, and the folder that is looked into."""
    outputs = await rate_checkpoints(services, page.id, page.line.recipe, page.outputs)
    values: dict[str, Any] = {"page": replace(page, outputs=outputs), "checkpoint_place": locate_checkpoint}
    values |= {"artifacts_shown": ARTIFACTS_SHOWN, "artifact_place": locate_artifact}
    path = query.get("folder", "")[:PATH_LENGTH]
    try:
        found = await load_folder(services, page.id, path, (parse_name(query.get("cursor")), ENTRIES_SHOWN))
    except StarForgeError as error:  # the rest of the page is of use without the storage
        return values | {"folder": None, "folder_error": error}
    view = FolderView(
        path=path,
        crumbs=tuple(_list_crumbs(path)),
        entries=found.items,
        following=None if found.next is None else urlencode({"folder": path, "cursor": found.next}),
        unlisted=found.unlisted,
    )
    return values | {"folder": view, "folder_error": None}


def locate_checkpoint(one: CheckpointView) -> str:
    """The address's part that names the checkpoint's folder."""
    return urlencode({"path": name_checkpoint(one)})


def locate_artifact(folder: str, path: str) -> str:
    """The address's part that names an artifact."""
    return urlencode({"path": f"{folder}/{path}"})


def _list_crumbs(path: str) -> Sequence[tuple[str, str]]:
    parts = path.split("/") if path else []
    return [(part, urlencode({"folder": "/".join(parts[: index + 1])})) for index, part in enumerate(parts)]
