"""`sf admin gc`: what retention would remove, removing it, and the hold that a backup takes."""

import time
from collections.abc import Sequence
from typing import Final

import click

from starforge.cli.output import json_option, note, print_json, print_table, say, warn
from starforge.cli.session import open_console_as
from starforge.client.retention import RetentionConsole
from starforge.contract.retention import LONGEST_HOLD_H, Collection, HoldRequest, HoldView, RemovalView
from starforge.errors import InputError
from starforge.wording import count_of, describe_bytes

_MINE: Final = "mine"
_EXPIRED: Final = {
    "idempotency_keys": "key of a submission",
    "tokens": "token that is over",
    "join_tokens": "join token that is over",
}
_PLURALS: Final = {
    "key of a submission": "keys of submissions",
    "token that is over": "tokens that are over",
    "join token that is over": "join tokens that are over",
}


@click.command()
@click.option("--apply", "is_applied", is_flag=True, help="Remove it; without this nothing is changed.")
@click.option(
    "--hold",
    "hours",
    type=click.FloatRange(0, LONGEST_HOLD_H, min_open=True),
    metavar="HOURS",
    help="Let nothing be removed for so long, such as for a backup.",
)
@click.option("--why", default="", help="With --hold: a reason, for whoever comes across it.")
@click.option(
    "--release",
    "released",
    is_flag=False,
    flag_value=_MINE,
    metavar="[HOLD]",
    help="End a hold before its time; without HOLD, all that you took.",
)
@json_option
def gc(*, is_applied: bool, hours: float | None, why: str, released: str | None, as_json: bool) -> None:
    r"""List what is over its time, or remove it.

    Working directories and logs of ended jobs, all their checkpoints but the last
    and the best, workspaces that no job refers to, leavings of uploads. Nothing of
    a job that runs, goes on by itself, or that another job starts from. The console
    does the same by itself unless FORGE_RETENTION is off.

    \b
    JSON: {applied, items: [{kind, job, attempt, name, bytes, why}], total_bytes,
           more, failed: [{removal, error}], expired: {name: count},
           hold: {id, until, by, why}, holds: [the same],
           last: {at, by, removed, bytes, failed, expired}}
    JSON of --hold: {id, until, by, why}
    """
    if sum((is_applied, hours is not None, released is not None)) > 1:
        raise InputError("--apply, --hold and --release are three different things", next_step="give one of them")
    with open_console_as(RetentionConsole) as console:
        if hours is not None:
            _print_hold(console.hold(HoldRequest(hours=hours, why=why or None)), as_json=as_json)
        elif released is not None:
            console.release("" if released == _MINE else released)
            note("that hold has ended, if it stood; the collector goes on once nobody holds it: see 'sf admin gc'")
        elif is_applied:
            _print(_collect(console), as_json=as_json)
        else:
            _print(console.removable(), as_json=as_json)


def _collect(console: RetentionConsole) -> Collection:
    """Every pass until nothing is left, as one."""
    whole = console.collect()
    part = whole
    while part.more:
        part = console.collect()
        expired = {name: count + part.expired.get(name, 0) for name, count in whole.expired.items()}
        told = {"items": (*whole.items, *part.items), "total_bytes": whole.total_bytes + part.total_bytes}
        whole = part.model_copy(update={**told, "failed": _merge_failed(whole, part), "expired": expired})
    return whole


def _merge_failed(whole: Collection, part: Collection) -> tuple[object, ...]:
    known = {one.removal: one for one in (*whole.failed, *part.failed)}
    return tuple(known.values())


def _print_hold(hold: HoldView, *, as_json: bool) -> None:
    if as_json:
        print_json(hold.model_dump(mode="json"))
        return
    say(hold.id)
    note(f"nothing is removed until {_moment(hold.until)}; to end that earlier: sf admin gc --release {hold.id}")


def _print(found: Collection, *, as_json: bool) -> None:
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.items:
        print_table(("WHAT", "OF", "SIZE", "WHY"), [_row(one) for one in found.items])
    verb = "removed" if found.applied else "would go"
    more = ", and more" if found.more else ""
    size = describe_bytes(found.total_bytes)
    say(f"{count_of(len(found.items), 'thing')} {verb}, {size}{more}" if found.items else f"nothing {verb}")
    for name, count in found.expired.items():
        if count:
            words = _EXPIRED.get(name, name)
            say(f"{count} {words if count == 1 else _PLURALS.get(words, words)} {verb}")
    for one in found.failed:
        warn(f"{' '.join(_row(one.removal)[:2])} could not be removed: {one.error}")
    for hold in found.holds:
        reason = f" ({hold.why})" if hold.why else ""
        note(f"{hold.by} holds the collector until {_moment(hold.until)}{reason}: nothing is removed [{hold.id}]")
    if found.hold is not None:
        return
    if found.items and not found.applied:
        note("to remove it now: sf admin gc --apply")


def _row(one: RemovalView) -> Sequence[str]:
    of = f"{one.job} attempt {one.attempt}" if one.job else ""
    name = one.name.removeprefix("sha256:")[:12] if one.kind == "blob" else one.name
    size = "-" if one.bytes is None else describe_bytes(one.bytes)
    return one.kind, " ".join(part for part in (of, name) if part), size, one.why


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
