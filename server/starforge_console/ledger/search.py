"""Which jobs a list shows: one filter for API and pages."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, not_, or_, tuple_

from starforge.contract.states import ENDED
from starforge_console.ledger.tables import jobs, users

ACTIVE: Final = "ACTIVE"
"""Stands for every state of a job that has not ended for good."""

OVER: Final = "OVER"
"""Stands for every state of a job that has."""

ENDED_STATES: Final = sorted(state.value for state in ENDED)

_ESCAPE: Final = "\\"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSearch:
    """Which jobs are wanted; None and "" do not filter.

    Attributes:
        state: A state, `ACTIVE` or `OVER`.
        text: Found in the job's id, name, project, user and spec.
        before: The (submitted_at, id) of the last job of the page before.

    """

    state: str | None = None
    user: str | None = None
    project: str | None = None
    sweep: str | None = None
    text: str = ""
    before: tuple[float, str] | None = None


def apply_search(query: Select[Any], wanted: JobSearch) -> Select[Any]:
    """`query`, which joins jobs and users, for the wanted jobs alone."""
    if wanted.state == ACTIVE:
        query = query.where(is_active())
    elif wanted.state == OVER:
        query = query.where(not_(is_active()))
    elif wanted.state is not None:
        query = query.where(jobs.c.state == wanted.state)
    if wanted.user is not None:
        query = query.where(users.c.name == wanted.user)
    if wanted.project is not None:
        query = query.where(jobs.c.project == wanted.project)
    if wanted.sweep is not None:
        query = query.where(jobs.c.sweep == wanted.sweep)
    if wanted.text:
        query = query.where(_mentions(wanted.text))
    if wanted.before is not None:
        query = query.where(tuple_(jobs.c.submitted_at, jobs.c.id) < tuple_(*wanted.before))
    return query


def is_active() -> ColumnElement[bool]:
    """The opposite of `starforge.contract.states.has_ended_for_good`, as the database decides it."""
    return or_(jobs.c.state.not_in(ENDED_STATES), jobs.c.retry_at.is_not(None))


def _mentions(text: str) -> ColumnElement[bool]:
    pattern = "%" + _escape(text.lower()) + "%"
    columns = (jobs.c.id, jobs.c.name, jobs.c.project, users.c.name, jobs.c.spec)
    return or_(*(func.lower(column).like(pattern, escape=_ESCAPE) for column in columns))


def _escape(text: str) -> str:
    for special in (_ESCAPE, "%", "_"):
        text = text.replace(special, _ESCAPE + special)
    return text
