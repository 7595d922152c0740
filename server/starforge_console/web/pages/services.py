"""What pages need beside the services of the API, and how a route gets it."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from starforge_console.accounts.device import DeviceSignIn
from starforge_console.accounts.oidc import OidcSignIn
from starforge_console.accounts.sessions import Sessions
from starforge_console.web.deps import ApiServices
from starforge_console.web.pages.assets import load_assets
from starforge_console.web.pages.look import Look
from starforge_console.web.room import Room
from starforge_console.web.sse import STREAMS_AT_ONCE, STREAMS_OF_ONE_USER, Hub


@dataclass(frozen=True, slots=True)
class PageServices:
    """Sessions, sign-ins by a code, templates, the hub over which streams share what they see, and room for readers."""

    sessions: Sessions
    devices: DeviceSignIn
    oidc: OidcSignIn
    look: Look
    hub: Hub
    seats: Room


def build_page_services(services: ApiServices) -> PageServices:
    """The pages' own services over those of the API."""
    return PageServices(
        devices=DeviceSignIn(services.ledger, services.clock),
        oidc=OidcSignIn(
            services.ledger,
            services.clock,
            services.settings.oidc,
            services.settings.http.public_url,
            services.accounts,
        ),
        sessions=Sessions(services.ledger, services.clock, services.accounts),
        look=Look(load_assets(), services.settings.http.public_url),
        hub=Hub(),
        seats=Room(STREAMS_AT_ONCE, STREAMS_OF_ONE_USER),
    )


def load_page_services(request: Request) -> PageServices:
    """The page services that the application was built with."""
    pages: PageServices = request.app.state.pages
    return pages


async def page_services_of(request: Request) -> PageServices:
    """The same, as a route asks for them."""
    return load_page_services(request)


Pages = Annotated[PageServices, Depends(page_services_of)]
