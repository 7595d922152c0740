"""Stops all the jobs of a sweep for whoever may do that."""

from collections.abc import Mapping
from dataclasses import dataclass

from starforge.contract.api import StopRequest
from starforge.errors import StarForgeError
from starforge.said.sentence import say
from starforge_console.accounts.sign_in import check_owner, check_scope
from starforge_console.domain.roles import Scope
from starforge_console.jobs.control import JobControl
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.sweeps import list_swept_jobs, load_sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What came of it: how many jobs had not ended and had, and those that could not be asked, each with the reason."""

    active: int
    ended: int
    refused: Mapping[str, StarForgeError]


@dataclass(frozen=True, slots=True)
class SweptJobs:
    """The jobs of the sweeps of one console."""

    control: JobControl

    async def stop(self, account: Account, sweep: str, request: StopRequest | None = None) -> Stopped:
        """Ask for the end of every job of the sweep that has not ended; repeated, it asks those that are left.

        Raises:
            NotFound: there is no such sweep.
            Forbidden: it belongs to somebody else, or the token may not stop jobs.

        """
        check_scope(account, Scope.SUBMIT)
        ledger = self.control.ledger
        kept = await ledger.read(lambda c: load_sweep(c, sweep))
        check_owner(account, kept.user_id, say("act.stop_sweep", sweep=sweep))
        active = await ledger.read(lambda c: list_swept_jobs(c, sweep, active=True))
        refused = await self.control.stop_all(account, active, request)
        return Stopped(active=len(active), ended=sum(kept.states.values()) - len(active), refused=refused)
