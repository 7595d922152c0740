"""What pages need beside the services of the API, and how a route gets it."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from starforge_console.accounts.sessions import Sessions
from starforge_console.web.deps import ApiServices
from starforge_console.web.pages.assets import load_assets
from starforge_console.web.pages.look import Look
from starforge_console.web.sse import Hub


@dataclass(frozen=True, slots=True)
class PageServices:
    """Sessions, templates, and the hub over which streams share what they look at."""

    sessions: Sessions
    look: Look
    hub: Hub


def build_page_services(services: ApiServices) -> PageServices:
    """The pages' own services over those of the API."""
    return PageServices(
        sessions=Sessions(services.ledger, services.clock, services.accounts),
        look=Look(load_assets(), services.settings.http.public_url),
        hub=Hub(),
    )


def load_page_services(request: Request) -> PageServices:
    """The page services that the application was built with."""
    pages: PageServices = request.app.state.pages
    return pages


async def page_services_of(request: Request) -> PageServices:
    """The same, as a route asks for them."""
    return load_page_services(request)


Pages = Annotated[PageServices, Depends(page_services_of)]
