"""Routes of blobs: whether one is here, and its upload."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from starforge.contract.api import BlobState
from starforge.contract.ids import Digest
from starforge_console.blobs.store import Start
from starforge_console.blobs.upload import Encoding
from starforge_console.errors import EncodingRefused
from starforge_console.web.body import Patience, read_pieces
from starforge_console.web.deps import Reader, Services, Submitter
from starforge_console.web.problems import problem_responses
from starforge_console.web.room import Room

UPLOADS_AT_ONCE: Final = 16
"""Each may make its decoder keep 128 MiB."""
UPLOADS_OF_ONE_USER: Final = 4
PATIENCE: Final = Patience(idle_s=30.0, grace_s=60.0, least_bytes_s=8 << 10)


class UploadHeaders(BaseModel):
    """What the headers of an upload say of its body."""

    content_encoding: str = Field(Encoding.IDENTITY.value, max_length=100)
    upload_offset: int = Field(0, ge=0)


router = APIRouter(tags=["blobs"])

DigestPath = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$")]

_UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The plain tar, or the same compressed with zstd and told so by Content-Encoding.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/blobs/{digest}", response_model=BlobState, responses=problem_responses(401, 403))
async def find_blob(services: Services, account: Reader, digest: DigestPath) -> Response:
    """Whether the blob is here; that it is not is a normal answer."""
    size = await services.blobs.find_size(Digest(digest))
    received = 0 if size is not None else await services.blobs.find_received(Digest(digest), account.user)
    return _answer(digest, size, received)


@router.put(
    "/blobs/{digest}",
    response_model=BlobState,
    responses=problem_responses(401, 403, 409, 413),
    openapi_extra=_UPLOAD,
)
async def put_blob(
    services: Services,
    account: Submitter,
    digest: DigestPath,
    request: Request,
    told: Annotated[UploadHeaders, Header()],
) -> Response:
    """Keep the content that the digest names; sending it again is fine.

    After a cut the body may go on at `Upload-Offset`, a count of plain bytes that `received` allows.
    """
    encoding, start = _parse_encoding(told.content_encoding), Start(account.user, told.upload_offset)
    uploads: Room = request.app.state.uploads
    with uploads.hold(account.user) as hold:
        hold.grow(1)
        try:
            size = await services.blobs.put(Digest(digest), read_pieces(request.receive, PATIENCE), encoding, start)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
    return _answer(digest, size)


def build_uploads() -> Room:
    """Room for uploads, counted one by one: in all, and of each user."""
    return Room(UPLOADS_AT_ONCE, UPLOADS_OF_ONE_USER)


def _parse_encoding(text: str) -> Encoding:
    try:
        return Encoding(text.strip().lower())
    except ValueError:
        raise EncodingRefused(
            f"the Content-Encoding {text!r} is not understood", next_step="send zstd, or none at all"
        ) from None


def _answer(digest: str, size: int | None, received: int = 0) -> Response:
    state = BlobState(digest=digest, present=size is not None, bytes=size, received=received)
    return Response(state.model_dump_json(), media_type="application/json")
