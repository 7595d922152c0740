"""What windows have stopped is looked at again once they, or whom they bind, are others."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, update

from starforge.contract.states import JobState, Reason
from starforge_console.ledger.holding import HOLDING
from starforge_console.ledger.tables import jobs


def look_again(connection: Connection, whose: ColumnElement[bool], at: float | ColumnElement[Any]) -> None:
    """Of the jobs of `whose`, let those that windows stop or have stopped for a while be looked at again from `at` on.

    When they were to go on was computed of what was so before. Their versions change, so that a look that is under way
    puts off and gives up nothing that it read before.
    """
    is_stopped = jobs.c.state.in_(HOLDING) & (jobs.c.wished_for == Reason.WINDOW_CLOSED.value)
    has_stopped = (jobs.c.state == JobState.STOPPED.value) & (jobs.c.reason == Reason.WINDOW_CLOSED.value)
    again = update(jobs).where(jobs.c.retry_at.is_not(None), or_(is_stopped, has_stopped), whose)
    connection.execute(again.values(retry_at=at, version=jobs.c.version + 1))
