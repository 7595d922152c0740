"""The administrators' view of the audit log: who did what, a page at a time."""

import re
from typing import Any, Final
from urllib.parse import urlencode

from starforge.contract.bounds import LARGEST_NUMBER
from starforge_console.ledger.audit import Asked
from starforge_console.web.audit import load_entries
from starforge_console.web.pages.fleet_visit import FleetVisit

ENTRIES: Final = 50
LONGEST: Final = 200
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


async def load_audit(asked: FleetVisit) -> dict[str, Any]:
    """The entries that the page's address asks for, and the addresses of the pages around."""
    given = {name: asked.request.query_params.get(name, "")[:LONGEST].strip() for name in ("user", "text", "before")}
    before = int(given["before"]) if _NUMBER.fullmatch(given["before"]) else None
    if before is not None and not 1 <= before <= LARGEST_NUMBER:
        before = None
    wanted = Asked(user=given["user"], text=given["text"], before=before)
    entries, following = await load_entries(asked.services, wanted, ENTRIES)
    kept = {"view": "audit", **{name: given[name] for name in ("user", "text") if given[name]}}
    people = await asked.services.people.list_all()
    return {
        "entries": entries,
        "given": given,
        "first": "/admin?" + urlencode(kept),
        "older": "/admin?" + urlencode({**kept, "before": following}) if following is not None else "",
        "is_first": before is None,
        "users": [one.user.name for one in people],
    }
