"""The files that pages load: kept in memory, packed once, under an address that changes with their content."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from starforge.errors import NotFound

STATIC: Final = Path(__file__).parents[1] / "static"
PREFIX: Final = "/static"
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".mjs": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
        ".woff2": "font/woff2",
        ".txt": "text/plain; charset=utf-8",
    }
)
_PACKED: Final = frozenset(_TYPES) - {".woff2"}
_HASH_LENGTH: Final = 12

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file; `packed` is its gzip form, where that is worth it."""

    content: bytes
    packed: bytes | None
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files, and the hash over all of them that stands in their addresses: relative references stay right."""

    files: Mapping[str, Asset]
    version: str

    def url(self, name: str) -> str:
        """The address of a file. Raises KeyError for one that is not there."""
        if name not in self.files:
            raise KeyError(name)
        return f"{PREFIX}/{self.version}/{name}"


@cache
def load_assets() -> Assets:
    """Every file below `static/` that has a type which pages may load."""
    files: dict[str, Asset] = {}
    whole = hashlib.sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.suffix not in _TYPES:
            continue
        name, content = path.relative_to(STATIC).as_posix(), path.read_bytes()
        whole.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        packed = gzip.compress(content, 9, mtime=0) if path.suffix in _PACKED else None
        files[name] = Asset(content, packed, _TYPES[path.suffix])
    return Assets(MappingProxyType(files), whole.hexdigest()[:_HASH_LENGTH])


@router.get(PREFIX + "/{version}/{name:path}")
async def send_asset(request: Request, version: str, name: str) -> Response:
    """A file: for ever under its present address, to be asked for again under one of another version."""
    assets = load_assets()
    asset = assets.files.get(name)
    if asset is None:
        raise NotFound(f"there is no file {name!r:.200}", next_step="reload the page: it may be of another version")
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if version == assets.version else "no-cache",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if asset.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, media_type=asset.media_type, headers=headers | {"Content-Encoding": "gzip"})
    return Response(asset.content, media_type=asset.media_type, headers=headers)
