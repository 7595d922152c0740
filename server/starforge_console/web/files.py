"""Routes of a job's files: folders listed, files sent whole or in part, folders sent as a tar."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from email.utils import formatdate
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from starforge.contract.api import PAGE_LIMIT
from starforge.contract.capsule import CKPT_DIRECTORY
from starforge.contract.files import FileEntry, FileList
from starforge.contract.ids import JobId
from starforge.contract.results import CheckpointView, Outputs
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.masking import MASK
from starforge_console.jobs.files import Folder, JobFiles, OpenFile, iterate_tar
from starforge_console.jobs.shown import build_shown
from starforge_console.ledger.views import list_attempts, load_job
from starforge_console.web.attachments import build_attachment
from starforge_console.web.attempts import load_outputs
from starforge_console.web.cursors import decode_place, encode_place
from starforge_console.web.deps import ApiServices, Reader, Services
from starforge_console.web.problems import problem_responses
from starforge_console.web.ranges import parse_range
from starforge_console.web.room import Room

SENT_AT_ONCE: Final = 32
SENT_TO_ONE_USER: Final = 8
STALLED_S: Final = 300.0
"""Whoever takes nothing of a piece for so long is sent no more: its place is another's."""
_PIECE_BYTES: Final = 1 << 20
_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}

_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The whole file.", "content": {"application/octet-stream": _BYTES}},
    206: {"description": "The part that Range asked for.", "content": {"application/octet-stream": _BYTES}},
    416: {"description": "The file has no such part."},
}
_TAR: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The tree as a plain tar.", "content": {"application/x-tar": _BYTES}}
}

router = APIRouter(tags=["series"])

FilePath = Annotated[str, Query(max_length=4096, description="a folder such as `out/adapter`; empty: the first ones")]
WholePath = Annotated[str, Query(min_length=1, max_length=4096, description="such as `out/model.bin`")]
Part = Annotated[str | None, Header(alias="Range", max_length=200, description="one range of bytes")]
Tag = Annotated[str | None, Header(alias="If-Range", max_length=200, description="the ETag that the range is of")]


@router.get("/jobs/{job_id}/files", response_model=FileList, responses=problem_responses(401, 403, 404))
async def list_job_files(
    services: Services,
    _account: Reader,
    job_id: str,
    *,
    path: FilePath = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = 100,
    cursor: Annotated[str | None, Query(max_length=2000)] = None,
) -> Response:
    """A folder of the job's outputs or checkpoints, a page at a time."""
    found = await load_folder(services, job_id, path, (parse_name(cursor), limit))
    return Response(found.model_dump_json(), media_type="application/json")


@router.get(
    "/jobs/{job_id}/file",
    response_class=StreamingResponse,
    responses=_FILE | problem_responses(401, 403, 404),
)
async def send_job_file(  # noqa: PLR0913 - one parameter a part of the request
    services: Services,
    account: Reader,
    request: Request,
    job_id: str,
    path: WholePath,
    *,
    part: Part = None,
    tag: Tag = None,
) -> Response:
    """A file of the job, or a part of it. It is never shown, always kept: a job may write anything."""
    return await send_file(services, request, (job_id, path), (account.user, part, tag))


@router.get(
    "/jobs/{job_id}/archive",
    response_class=StreamingResponse,
    responses=_TAR | problem_responses(401, 403, 404),
)
async def send_job_folder(
    services: Services, account: Reader, request: Request, job_id: str, path: WholePath
) -> Response:
    """A folder or a checkpoint as one tar. Links that lead out of it are left out."""
    return await send_folder(services, request, (job_id, path), account.user)


async def load_folder(services: ApiServices, job_id: str, path: str, wanted: tuple[str, int]) -> FileList:
    """Entries of a folder after a name, at most so many, with the digests that attempts have told. Raises NotFound."""
    (files, outputs), (after, limit) = await _files_as_shown(services, job_id), wanted
    found = await asyncio.to_thread(files.list_folder, JobId(job_id), path, after, limit)
    digests = {
        (f"{one.folder}/{one.path}", one.bytes): one.sha256 for one in outputs.artifacts if one.sha256 is not None
    }
    return _build_list(path, found, digests)


async def send_file(
    services: ApiServices, request: Request, wanted: tuple[str, str], reader: tuple[str, str | None, str | None]
) -> Response:
    """The file (job, path) for the reader (user, Range, If-Range)."""
    (job_id, path), (user, part, tag) = wanted, reader
    files = await _files_of(services, job_id, path)
    file = await asyncio.to_thread(files.open_file, JobId(job_id), path)
    span = parse_range(part, file.size_bytes) if tag is None or tag == file.tag else (0, file.size_bytes)
    headers = build_attachment(file.name) | {
        "ETag": file.tag,
        "Accept-Ranges": "bytes",
    }
    if file.modified_at is not None:
        headers["Last-Modified"] = formatdate(file.modified_at, usegmt=True)
    if span is None:
        file.close()
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{file.size_bytes}"})
    start, end = span
    headers["Content-Length"] = str(end - start)
    is_part = span != (0, file.size_bytes)
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size_bytes}"
    held = _Held(request.app.state.downloads, user, file)
    return _Sending(held, _iterate(file, start, end), 206 if is_part else 200, headers)


async def send_folder(services: ApiServices, request: Request, wanted: tuple[str, str], user: str) -> Response:
    """The folder (job, path) as a tar for the user."""
    job_id, path = wanted
    files = await _files_of(services, job_id, path)
    tree = await asyncio.to_thread(files.open_tree, JobId(job_id), path)
    top = path.rsplit("/", 1)[-1]
    folder = OpenFile(name=top, descriptor=tree, size_bytes=0, modified_at=None, tag="")
    headers = build_attachment(f"{job_id}-{path.replace('/', '-')}.tar")
    held = _Held(request.app.state.downloads, user, folder)
    pieces = iterate_in_threadpool(iterate_tar(tree, top))
    return _Sending(held, pieces, 200, headers, "application/x-tar")


class Downloads(Room):
    """Room for what is being sent, counted one by one: in all, and to each user."""

    def __init__(
        self, limit: int = SENT_AT_ONCE, share: int = SENT_TO_ONE_USER, *, stalled_s: float = STALLED_S
    ) -> None:
        super().__init__(limit, share)
        self.stalled_s = stalled_s


def parse_name(cursor: str | None) -> str:
    """The name that a list goes on after; empty without a cursor. Raises InputError."""
    return "" if cursor is None else decode_place(cursor)


class _Held:
    """A place among those who are sent something, and the file that they are sent."""

    def __init__(self, room: Downloads, user: str, file: OpenFile) -> None:
        self.stalled_s = room.stalled_s
        self._room = room
        self._user = user
        self._file = file

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Raises Busy when too much is being sent; the file is closed at the end in any case."""
        with contextlib.closing(self._file), self._room.hold(self._user) as hold:
            hold.grow(1)
            yield


class _Sending(StreamingResponse):
    """Sends pieces, and gives its place back however that ends."""

    def __init__(
        self,
        held: _Held,
        pieces: AsyncIterator[bytes],
        status: int,
        headers: dict[str, str],
        media_type: str = "application/octet-stream",
    ) -> None:
        super().__init__(pieces, status_code=status, headers=headers, media_type=media_type)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all; the reader may leave at any time, and one that takes nothing any more is left."""
        with self._held.taken(), contextlib.suppress(ClientDisconnect):
            await super().__call__(scope, receive, _hurry(send, self._held.stalled_s))


def _hurry(send: Send, stalled_s: float) -> Send:
    """`send` that raises ClientDisconnect when the reader does not take a piece in time."""

    async def send_in_time(message: Message) -> None:
        try:
            async with asyncio.timeout(stalled_s):
                await send(message)
        except TimeoutError:
            raise ClientDisconnect from None

    return send_in_time


async def _files_of(services: ApiServices, job_id: str, path: str) -> JobFiles:
    """The files of the job as `path` names them."""
    if MASK in path:
        return (await _files_as_shown(services, job_id))[0]
    await services.ledger.read(lambda c: load_job(c, job_id))
    await asyncio.to_thread(services.blobs.require_storage)
    return JobFiles(StorageLayout(services.settings.storage_root))


async def _files_as_shown(services: ApiServices, job_id: str) -> tuple[JobFiles, Outputs]:
    """The files of the job under the names that are told of them, and what is told. Raises NotFound."""
    attempts = await services.ledger.read(lambda c: (load_job(c, job_id), list_attempts(c, job_id))[1])
    await asyncio.to_thread(services.blobs.require_storage)
    outputs = await load_outputs(services, attempts)
    told: list[tuple[str, int | None]] = [(f"{one.folder}/{one.path}", one.bytes) for one in outputs.artifacts]
    told += [(name_checkpoint(one), None) for one in outputs.checkpoints]
    return JobFiles(StorageLayout(services.settings.storage_root), build_shown(told)), outputs


def name_checkpoint(one: CheckpointView) -> str:
    """The path of the checkpoint's folder."""
    return f"checkpoints/{one.attempt}{one.path.removeprefix(CKPT_DIRECTORY)}"


async def _iterate(file: OpenFile, start: int, end: int) -> AsyncIterator[bytes]:
    """The bytes from `start` to `end`; fewer of a file that was cut meanwhile, which ends the connection."""
    at = start
    while at < end:
        piece = await asyncio.to_thread(file.read, at, min(_PIECE_BYTES, end - at))
        if not piece:
            return
        at += len(piece)
        yield piece


def _build_list(path: str, found: Folder, digests: dict[tuple[str, int], str]) -> FileList:
    items: Sequence[FileEntry] = [
        FileEntry(
            name=one.name,
            kind=one.kind,
            bytes=one.bytes,
            modified_at=one.modified_at,
            sha256=digests.get((f"{path}/{one.name}", one.bytes)) if one.bytes is not None else None,
        )
        for one in found.entries
    ]
    following = found.following
    cursor = None if following is None else encode_place(following)
    return FileList(path=path, items=tuple(items), next=cursor, unlisted=found.unlisted)
