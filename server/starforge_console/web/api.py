"""The application that pages and API are served from: its routes, its errors and its OpenAPI document."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import starforge
from starforge.contract.api import API_PREFIX
from starforge_console.telemetry.metrics import HttpFigures
from starforge_console.web import (
    audit,
    blobs,
    caller,
    catalog,
    compare,
    device,
    diagnosis,
    files,
    fleets,
    follow,
    install,
    jobs,
    lineage,
    log_lines,
    maintenance,
    natives,
    oidc,
    ops,
    people,
    queue,
    registries,
    retention,
    samples,
    secrets,
    series,
    signin,
    sweeps,
    tokens,
    webhooks,
    windows,
)
from starforge_console.web.deps import ApiServices
from starforge_console.web.figures import Figures, Stopwatch
from starforge_console.web.fleet_views import FleetServices
from starforge_console.web.guard import BodyGuard
from starforge_console.web.heads import HeadAnswers
from starforge_console.web.hot import HotDoor
from starforge_console.web.nodes import NodeDesk, NodeDoor
from starforge_console.web.pages.routes import add_page_routes, supply_pages
from starforge_console.web.polls import LongPolls
from starforge_console.web.problems import handle_errors

_TITLE: Final = "StarForge"
_OF_API: Final = (
    catalog,
    caller,
    tokens,
    device,
    secrets,
    jobs,
    sweeps,
    lineage,
    diagnosis,
    natives,
    log_lines,
    follow,
    series,
    compare,
    blobs,
    fleets,
    queue,
    people,
    audit,
    retention,
    files,
    samples,
    registries,
    webhooks,
    windows,
    maintenance,
)
"""Modules whose routes are the API."""


def build_api(
    services: ApiServices, fleet_services: FleetServices | None = None, node_desk: NodeDesk | None = None
) -> FastAPI:
    """The application over `services`. Its long polls are `app.state.polls`; without the others it serves no fleets."""
    app = build_application()
    app.state.services = services
    app.state.fleet_services = fleet_services
    app.state.node_desk = node_desk
    app.state.polls = LongPolls(services.wakeups)
    app.state.uploads = blobs.build_uploads()
    app.state.downloads = files.Downloads()
    app.state.figures = Figures(services)
    app.state.http_figures = HttpFigures(services.metrics)
    supply_pages(app, services)
    install.supply_wheels(app, services)
    return app


def build_document() -> dict[str, Any]:
    """The OpenAPI document, which depends on no services."""
    document: dict[str, Any] = build_application().openapi()
    return document


def build_application() -> FastAPI:
    """The routes alone, over nothing: what can be said of them without a console that runs."""
    app = _Application(
        title=_TITLE,
        version=starforge.__version__,
        openapi_url=f"{API_PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for module in _OF_API:
        app.include_router(module.router, prefix=API_PREFIX)
    app.include_router(ops.router)
    app.include_router(install.router)
    handle_errors(app)
    app.include_router(signin.router)
    app.include_router(oidc.router)
    add_page_routes(app)
    app.add_middleware(HotDoor, routes=jobs.HOT_ROUTES)
    app.add_middleware(BodyGuard)
    app.add_middleware(HeadAnswers)
    app.add_middleware(Stopwatch)
    app.add_middleware(NodeDoor)  # before the guard, which lets in nobody without a user's token
    return app


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The document with problem documents for errors and one way to sign in."""
        if self.openapi_schema is None:
            self.openapi_schema = _describe(self)
        return self.openapi_schema


def _describe(app: FastAPI) -> dict[str, Any]:
    from starforge_console.web.document import complete  # noqa: PLC0415 - most starts of the console describe nothing

    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    complete(document)
    return document
