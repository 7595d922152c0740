"""Which jobs a list shows: one filter for API and pages."""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, func, not_, or_, tuple_

from starforge.contract.states import ENDED
from starforge_console.ledger.tables import jobs, users

ACTIVE: Final = "ACTIVE"
"""Stands for every state of a job that has not ended for good."""

OVER: Final = "OVER"
"""Stands for every state of a job that has."""

ENDED_STATES: Final = sorted(state.value for state in ENDED)

_ESCAPE: Final = "\\"
_STATE, _USER, _PROJECT, _SWEEP, _PATTERN = "wanted_state", "wanted_user", "wanted_project", "wanted_sweep", "pattern"
_BEFORE, _BEFORE_JOB = "before", "before_job"


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

    def shape(self) -> Self:
        """A search with the same conditions and other values: its statement takes this one's `values` as well."""
        return replace(
            self,
            state=self.state if self.state in {ACTIVE, OVER, None} else "",
            user=None if self.user is None else "",
            project=None if self.project is None else "",
            sweep=None if self.sweep is None else "",
            text=" " if self.text else "",
            before=None if self.before is None else (0.0, ""),
        )

    def values(self) -> dict[str, str | float]:
        """What `apply_search` binds, by name."""
        at, job = (None, None) if self.before is None else self.before
        bound = {
            _STATE: None if self.state in {ACTIVE, OVER} else self.state,
            _USER: self.user,
            _PROJECT: self.project,
            _SWEEP: self.sweep,
            _PATTERN: "%" + _escape(self.text.lower()) + "%" if self.text else None,
            _BEFORE: at,
            _BEFORE_JOB: job,
        }
        return {name: value for name, value in bound.items() if value is not None}


def apply_search(query: Select[Any], wanted: JobSearch) -> Select[Any]:
    """`query`, which joins jobs and users, for the wanted jobs alone."""
    bound: dict[str, BindParameter[Any]] = {name: bindparam(name, value) for name, value in wanted.values().items()}
    if wanted.state == ACTIVE:
        query = query.where(is_active())
    elif wanted.state == OVER:
        query = query.where(not_(is_active()))
    elif wanted.state is not None:
        query = query.where(jobs.c.state == bound[_STATE])
    if wanted.user is not None:
        query = query.where(users.c.name == bound[_USER])
    if wanted.project is not None:
        query = query.where(jobs.c.project == bound[_PROJECT])
    if wanted.sweep is not None:
        query = query.where(jobs.c.sweep == bound[_SWEEP])
    if wanted.text:
        query = query.where(_mentions(bound[_PATTERN]))
    if wanted.before is not None:
        query = query.where(tuple_(jobs.c.submitted_at, jobs.c.id) < tuple_(bound[_BEFORE], bound[_BEFORE_JOB]))
    return query


def is_active() -> ColumnElement[bool]:
    """The opposite of `starforge.contract.states.has_ended_for_good`, as the database decides it."""
    return or_(jobs.c.state.not_in(ENDED_STATES), jobs.c.retry_at.is_not(None))


def _mentions(pattern: BindParameter[Any]) -> ColumnElement[bool]:
    columns = (jobs.c.id, jobs.c.name, jobs.c.project, users.c.name, jobs.c.spec)
    return or_(*(func.lower(column).like(pattern, escape=_ESCAPE) for column in columns))


def _escape(text: str) -> str:
    for special in (_ESCAPE, "%", "_"):
        text = text.replace(special, _ESCAPE + special)
    return text
