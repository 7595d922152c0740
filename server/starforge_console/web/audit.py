"""The route of the audit log. For administrators."""

from typing import Annotated

from fastapi import APIRouter, Query

from starforge.contract.api import PAGE_LIMIT
from starforge.contract.audit import AUDIT_PAGE, AuditEntry, AuditList
from starforge.contract.bounds import LARGEST_NUMBER
from starforge.said.sentence import Said
from starforge_console.ledger.audit import Asked, Entry, list_acts
from starforge_console.web.deps import Administrator, ApiServices, Services
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["administration"])

Time = Annotated[float | None, Query(ge=0, le=LARGEST_NUMBER, allow_inf_nan=False, description="Unix seconds")]


@router.get("/admin/audit", responses=problem_responses(401, 403))
async def list_audit(  # noqa: PLR0913 - one parameter for each thing that may be asked for
    services: Services,
    _account: Administrator,
    *,
    user: Annotated[str, Query(max_length=100, description="what this user did")] = "",
    act: Annotated[str, Query(max_length=100, description="acts of this kind")] = "",
    text: Annotated[str, Query(max_length=200, description="what the English sentence contains")] = "",
    since: Time = None,
    until: Time = None,
    before: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER, description="the `next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = AUDIT_PAGE,
) -> AuditList:
    """Who did what, the newest first: every administrative act and sign-in. Entries are never changed or removed."""
    asked = Asked(user=user, act=act, text=text, since=since, until=until, before=before)
    entries, following = await load_entries(services, asked, limit)
    return AuditList(items=tuple(map(_show_entry, entries)), next=following)


async def load_entries(services: ApiServices, asked: Asked, limit: int) -> tuple[list[Entry], int | None]:
    """At most `limit` entries, the newest first, and from where the next page goes on; None at the end."""
    found = await services.ledger.read(lambda c: list_acts(c, asked, limit + 1))
    shown = list(found[:limit])
    return shown, shown[-1].number if len(found) > limit else None


def _show_entry(entry: Entry) -> AuditEntry:
    values = entry.what.values if isinstance(entry.what, Said) else {}
    return AuditEntry(
        number=entry.number,
        at=entry.at,
        user=entry.user,
        via=entry.via,
        peer=entry.peer,
        token=entry.token,
        act=entry.act,
        what=str(entry.what),
        values={name: value if isinstance(value, int) else str(value) for name, value in values.items()},
    )
