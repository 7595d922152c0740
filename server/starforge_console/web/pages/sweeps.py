"""A sweep on the page that compares its runs, and the end of all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from starforge.contract.comparing import RUNS_AT_MOST
from starforge.contract.sweeps import SweepDetail
from starforge_console.ledger.listing import load_lines
from starforge_console.ledger.sweeps import load_sweep
from starforge_console.web.deps import ApiServices, Services
from starforge_console.web.pages.services import Pages
from starforge_console.web.pages.visit import Signed, Visit, account_of, load_form
from starforge_console.web.sweeps import load_sweep_detail

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class SweepShown:
    """A sweep above the comparison of its runs. `may`: this reader may stop them."""

    detail: SweepDetail
    may: bool

    @property
    def jobs(self) -> Sequence[str]:
        """The runs that are compared, the best first: as many as one comparison holds."""
        return [run.job.id for run in self.detail.runs[:RUNS_AT_MOST]]

    @property
    def left_out(self) -> int:
        """How many runs are not compared."""
        return max(0, len(self.detail.runs) - RUNS_AT_MOST)

    @property
    def first_key(self) -> list[str]:
        """The metric by which the runs are in order, once one of them has a value of it."""
        primary = self.detail.primary
        return [primary.key] if primary is not None and any(run.best is not None for run in self.detail.runs) else []

    def value_of(self, job: str, key: str) -> object:
        """What the run was given for `key`; None where it has none."""
        part = next((run.job.sweep for run in self.detail.runs if run.job.id == job), None)
        return None if part is None else part.combination.get(key)


async def load_shown(services: ApiServices, visit: Visit, sweep: str) -> SweepShown:
    """The sweep as this reader sees it. Raises NotFound."""
    kept = await services.ledger.read(lambda c: load_sweep(c, sweep))
    return SweepShown(await load_sweep_detail(services, sweep), may=visit.may_change(kept.user_id))


@router.get("/sweeps/{sweep_id}")
async def show_sweep(services: Services, _visit: Signed, sweep_id: str) -> Response:
    """A sweep's page is the comparison of its runs."""
    kept = await services.ledger.read(lambda c: load_sweep(c, sweep_id))
    return RedirectResponse(address_of(kept.id), 303, {"Cache-Control": "no-store"})


@router.post("/sweeps/{sweep_id}/stop")
async def stop_sweep(pages: Pages, services: Services, visit: Signed, request: Request, sweep_id: str) -> Response:
    """Ask for the end of every job of the sweep; those that could not be asked are shown with the reason."""
    await load_form(request, visit)
    stopped = await services.swept_jobs.stop(account_of(visit), sweep_id)
    back = address_of(sweep_id)
    if not stopped.refused:
        return RedirectResponse(f"{back}&done=stopped", 303, {"Cache-Control": "no-store"})
    found = await services.ledger.read(lambda c: load_lines(c, list(stopped.refused)))
    left = [(one, found.get(one), error) for one, error in stopped.refused.items()]
    asked, again = stopped.active - len(left), f"/sweeps/{sweep_id}/stop"
    return pages.look.page(visit, "stop_jobs_left.html", nav="jobs", left=left, asked=asked, back=back, again=again)


def address_of(sweep: str) -> str:
    """Where the runs of a sweep are compared."""
    return f"/compare?sweep={sweep}"
