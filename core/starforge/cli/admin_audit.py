"""`sf admin audit`: who did what."""

import re
import time
from datetime import UTC, datetime
from typing import Final

import click

from starforge.cli.output import json_option, note, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.client.people import PeopleConsole
from starforge.contract.audit import AuditEntry
from starforge.errors import InputError

_SPAN: Final = re.compile(r"([0-9]{1,6})([mhd])")
_UNIT_S: Final = {"m": 60, "h": 3600, "d": 86_400}
_MOST: Final = 500


@click.command()
@click.option("--user", metavar="NAME", help="What this user did.")
@click.option("--act", metavar="WORD", help="Acts of this kind, as --json names them: user_added, node_drained …")
@click.option("--text", metavar="TEXT", help="Acts whose sentence contains this.")
@click.option("--since", metavar="TIME", help="From then on: 30m, 12h, 7d ago, or a date such as 2026-07-01 (UTC).")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@json_option
def audit(limit: int, as_json: bool, since: str | None, **asked: str | None) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show who did what, the newest first.

    Every administrative act and sign-in is there; nothing of it is ever changed or
    removed. USER is empty for a failed sign-in, a machine that joined, and the
    console itself.

    \b
    JSON: {items: [{number, at, user, via, peer, token, act, what,
                    values: {name: text or number}}]}
    """
    query: dict[str, str | int] = {name: text for name, text in asked.items() if text}
    if since is not None:
        query["since"] = parse_since(since, time.time())
    found = _load(query, limit)
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        note("nothing of that kind was done")
        return
    rows = [(_when(one), one.user or "-", _describe_way(one), one.what) for one in found]
    print_table(("WHEN (UTC)", "USER", "BY", "WHAT"), rows)


def parse_since(text: str, now: float) -> int:
    """The moment that `text` names, in Unix seconds. Raises InputError."""
    span = _SPAN.fullmatch(text)
    if span is not None:
        return max(0, int(now) - int(span[1]) * _UNIT_S[span[2]])
    try:
        moment = datetime.fromisoformat(text)
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{text!r:.80} is no time", next_step="write 30m, 12h or 7d, or a date such as 2026-07-01"
        ) from error


def _load(query: dict[str, str | int], limit: int) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    with open_console_as(PeopleConsole) as console:
        while len(found) < limit:
            page = console.audit({**query, "limit": min(_MOST, limit - len(found))})
            found += page.items
            if page.next is None:
                break
            query = {**query, "before": page.next}
    return found


def _when(entry: AuditEntry) -> str:
    return datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _describe_way(entry: AuditEntry) -> str:
    return f"{entry.via} {entry.peer}".strip()
