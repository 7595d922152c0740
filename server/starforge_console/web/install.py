"""Routes that a machine installs forgelet from: the script, and an index of wheels as pip reads it. No sign-in.

The index is that of PEP 503 in HTML and of PEP 691 in JSON. Addresses in it are relative, so that they hold behind any
proxy. Only wheels are served, by the names that a scan of the wheelhouse found.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Request
from packaging.utils import canonicalize_name
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response

from starforge.errors import NotFound, Unavailable
from starforge_console.fleets.join_lines import find_doubt
from starforge_console.web.deps import ApiServices, Services
from starforge_console.wheels.index import FOLDER, Wheel, WheelIndex, build_lock_text, explain_unsupplied, select_wheels
from starforge_console.wheels.lock import load_release_lock
from starforge_console.wheels.script import build_script
from starforge_console.wheels.targets import PYTHONS, find_target

JSON_TYPE: Final = "application/vnd.pypi.simple.v1+json"

_HTML_TYPES: Final = ("application/vnd.pypi.simple.v1+html", "text/html", "*/*")
_JSON_TYPES: Final = (JSON_TYPE, "application/vnd.pypi.simple.latest+json")
_META: Final = {"api-version": "1.0"}
_FRESH: Final = {"cache-control": "no-cache"}

router = APIRouter(include_in_schema=False)


def supply_wheels(app: FastAPI, services: ApiServices) -> None:
    """Give the routes the wheelhouse of a console that runs."""
    app.state.wheels = WheelIndex(services.settings.paths.console_state_dir / FOLDER)


def wheels_of(request: Request) -> WheelIndex:
    """The wheelhouse that the application was built with."""
    wheels: WheelIndex = request.app.state.wheels
    return wheels


Wheels = Annotated[WheelIndex, Depends(wheels_of)]


@dataclass(frozen=True, slots=True)
class JoinWays:
    """Where machines find this console, and what speaks against one joining by the pasted line; empty: nothing."""

    public_url: str
    doubt: str


async def join_ways_of(services: Services, wheels: Wheels) -> JoinWays:
    """How machines join this console now."""
    http = services.settings.http
    unsupplied = await asyncio.to_thread(lambda: explain_unsupplied(wheels.list_wheels(), load_release_lock()))
    doubts = (find_doubt(http.public_url, http.listen, http.trusted_proxies), unsupplied)
    return JoinWays(http.public_url, "; ".join(filter(None, doubts)))


Ways = Annotated[JoinWays, Depends(join_ways_of)]


@router.get("/install.sh")
def show_script(services: Services) -> Response:
    """The script, for this console."""
    http = services.settings.http
    try:
        script = build_script(http.public_url, http.public_ca_file)
    except Unavailable as error:
        return _say(error, 503)
    return Response(script, media_type="text/x-shellscript", headers=_FRESH)


@router.get("/simple/")
def list_projects(request: Request, wheels: Wheels) -> Response:
    """The names of all packages."""
    names = sorted({wheel.project for wheel in wheels.list_wheels()})
    if _wants_json(request.headers.get("accept", "")):
        return _json({"projects": [{"name": name} for name in names]})
    return _html(f'<a href="{name}/">{name}</a>' for name in names)


@router.get("/simple/{project}/")
def list_files(project: str, request: Request, wheels: Wheels) -> Response:
    """The files of one package, each with its digest."""
    name = canonicalize_name(project)
    if name != project:
        return RedirectResponse(f"../{quote(name)}/", 301)
    found = [wheel for wheel in wheels.list_wheels() if wheel.project == name]
    if not found:
        return PlainTextResponse(f"{name} is not in this wheelhouse\n", 404)
    if _wants_json(request.headers.get("accept", "")):
        return _json({"name": name, "files": [_build_file(wheel) for wheel in found]})
    return _html(
        f'<a href="{escape(_address(wheel))}#sha256={wheel.digest}">{escape(wheel.path.name)}</a>' for wheel in found
    )


@router.get("/files/{name}")
def send_file(name: str, wheels: Wheels) -> Response:
    """One wheel."""
    wheel = wheels.find_wheel(name)
    if wheel is None:
        return PlainTextResponse("there is no such wheel\n", 404)
    return FileResponse(wheel.path, media_type="application/octet-stream")


@router.get("/locks/{tag}.txt")
def show_lock(tag: str, wheels: Wheels) -> Response:
    """What a machine of the kind `tag` (`cp311-x86_64`) installs, or what an administrator has to run first."""
    target = find_target(tag)
    if target is None:
        refusal = NotFound(
            f"forgelet does not run on {tag}",
            next_step=f"it needs Python {PYTHONS[0]} to {PYTHONS[-1]} on x86_64 or aarch64",
        )
        return _say(refusal, 404)
    try:
        text = build_lock_text(select_wheels(wheels.list_wheels(), load_release_lock(), target))
    except NotFound as error:
        return _say(error, 404)
    return PlainTextResponse(text, headers=_FRESH)


def _wants_json(accept: str) -> bool:
    """Whether JSON is what the header asks for before HTML."""
    weights = dict(map(_parse_choice, accept.split(",")))
    wanted = max((weights.get(kind, 0.0) for kind in _JSON_TYPES), default=0.0)
    return wanted > 0 and wanted >= max(weights.get(kind, 0.0) for kind in _HTML_TYPES)


def _parse_choice(choice: str) -> tuple[str, float]:
    kind, *parameters = (part.strip() for part in choice.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return kind.lower(), float(value)
            except ValueError:
                return kind.lower(), 0.0
    return kind.lower(), 1.0


def _build_file(wheel: Wheel) -> dict[str, object]:
    return {
        "filename": wheel.path.name,
        "url": _address(wheel),
        "hashes": {"sha256": wheel.digest},
        "size": wheel.size_bytes,
    }


def _address(wheel: Wheel) -> str:
    return f"../../files/{quote(wheel.path.name)}"


def _json(members: dict[str, object]) -> Response:
    return Response(json.dumps({"meta": _META, **members}), media_type=JSON_TYPE, headers={"vary": "accept"})


def _html(links: Iterable[str]) -> Response:
    body = "\n".join(f"{link}<br>" for link in links)
    return HTMLResponse(f"<!DOCTYPE html>\n<html><body>\n{body}\n</body></html>\n", headers={"vary": "accept"})


def _say(error: NotFound | Unavailable, status: int) -> Response:
    """For the eyes of whoever reads what a script prints."""
    return PlainTextResponse(f"{error}\n", status)
