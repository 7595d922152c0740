"""How often one user may change who can sign in as them: each time stands in the audit log, which keeps everything.

What ends a token or a session needs no bound: there are never more of those than were made.
"""

from collections.abc import Callable
from typing import Final

from starforge.errors import Busy
from starforge.said.sentence import say
from starforge_console.accounts.throttle import Throttle
from starforge_console.ledger.accounts import Account

AT_ONCE: Final = 200
RECOVERY_S: Final = 30.0
"""One more is allowed after each of these."""


class Pace:
    """Of one kind of act, by user; belongs to one event loop."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._spent = Throttle(AT_ONCE, RECOVERY_S)

    def take(self, account: Account) -> None:
        """One more of the user's. Raises Busy where there were too many of late."""
        user, now = f"user {account.user}", self._monotonic()
        wait_s = self._spent.find_wait(user, now)
        if wait_s:
            raise Busy(
                say("fault.many_acts", user=account.user),
                why=say("fault.many_acts_why"),
                retry_after_s=wait_s,
                next_step=say("fault.many_acts_next"),
            )
        self._spent.count_failure(user, now)
