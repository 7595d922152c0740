"""Puts the pages into the application."""

from fastapi import FastAPI

from starforge_console.web.deps import ApiServices
from starforge_console.web.pages import (
    account,
    admin,
    admin_users,
    assets,
    catalog,
    compare,
    curves,
    device,
    fleet_delete,
    fleet_live,
    fleet_nodes,
    fleets,
    job,
    job_turns,
    jobs,
    jobs_together,
    live,
    log,
    outputs,
    overview,
    places_live,
    preferences,
    queue,
    secrets,
    sweeps,
    tokens,
)
from starforge_console.web.pages.errors import answer_errors
from starforge_console.web.pages.services import build_page_services

MODULES = (
    assets,
    preferences,
    overview,
    queue,
    jobs,
    jobs_together,
    job,
    job_turns,
    curves,
    compare,
    sweeps,
    outputs,
    catalog,
    fleets,
    fleet_delete,
    fleet_nodes,
    account,
    tokens,
    secrets,
    device,
    admin,
    admin_users,
    places_live,
    live,
    log,
    fleet_live,
)


def add_page_routes(app: FastAPI) -> None:
    """Serve the pages, and let them answer errors as pages."""
    for module in MODULES:
        app.include_router(module.router)
    answer_errors(app)


def supply_pages(app: FastAPI, services: ApiServices) -> None:
    """Give the pages what they need of a console that runs."""
    app.state.pages = build_page_services(services)
