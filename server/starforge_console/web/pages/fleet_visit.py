"""One request for a page about fleets: who asks, and everything that such pages are made from."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData

from starforge_console.accounts.sign_in import check_administrator, check_operator
from starforge_console.ledger.fleets import Fleet
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.fleet_views import FleetServices
from starforge_console.web.fleets import Fleets
from starforge_console.web.pages.services import Pages, PageServices
from starforge_console.web.pages.visit import Signed, Visit, account_of, load_form


@dataclass(frozen=True, slots=True)
class FleetVisit:
    """The visit of somebody who may read, with the services of fleets."""

    pages: PageServices
    services: ApiServices
    fleets: FleetServices
    visit: Visit
    request: Request

    @property
    def user(self) -> str:
        """Who asks."""
        return account_of(self.visit).user

    def load_fleet(self, name: str) -> Fleet:
        """The fleet of that name. Raises NotFound."""
        return self.fleets.administration.load_fleet(name)

    def check_operator(self) -> None:
        """Raises Forbidden for whoever may not change fleets."""
        check_operator(account_of(self.visit))

    def check_administrator(self) -> None:
        """Raises Forbidden for whoever may not do everything."""
        check_administrator(account_of(self.visit))

    async def load_form(self) -> FormData:
        """The form that an operator sent from one of our own pages. Raises Forbidden."""
        self.check_operator()
        return await load_form(self.request, self.visit)

    async def load_administrators_form(self) -> FormData:
        """The form that an administrator sent, as above. Raises Forbidden."""
        self.check_administrator()
        return await load_form(self.request, self.visit)


async def fleet_visit_of(
    pages: Pages, services: Services, fleets: Fleets, visit: Signed, request: Request
) -> FleetVisit:
    """The visit that a request is part of."""
    return FleetVisit(pages, services, fleets, visit, request)


Asked = Annotated[FleetVisit, Depends(fleet_visit_of)]
