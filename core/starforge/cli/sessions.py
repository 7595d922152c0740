"""`sf session`: where one is signed in, and ending that."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import describe_time, json_option, note, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.client.tokens import TokenConsole
from starforge.contract.tokens import TokenView
from starforge.wording import count_of

_HERE: Final = "starforge.cli.sessions"
_COMMANDS: Final = {
    "ls": LazyCommand(f"{_HERE}:ls", "List where you are signed in: page sessions and personal tokens."),
    "end": LazyCommand(f"{_HERE}:end", "End sessions or tokens, at once."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def session() -> None:
    """See where you are signed in, and end that.

    A page session ends with the token that opened it. New tokens are made on the
    Tokens page and by `sf login`.
    """


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Everybody's; for administrators.")
@json_option
def ls(everybody: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List where you are signed in: page sessions and personal tokens.

    \b
    JSON: {items: [{id, kind, user, label, scopes: [text], created_at, expires_at,
                    used_at, peer, agent, current}]}
    kind is personal or session; used_at, peer and agent are told of sessions.
    """
    with open_console_as(TokenConsole) as console:
        found = console.tokens(everybody=everybody).items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            str(one.id),
            "session" if one.kind == "session" else "token",
            one.user,
            _describe(one),
            describe_time(one.expires_at),
        )
        for one in found
    ]
    print_table(("ID", "KIND", "USER", "WHAT", "ENDS"), rows)


@click.command()
@click.argument("ids", type=click.IntRange(min=1), nargs=-1, metavar="[ID]...")
@click.option("--others", is_flag=True, help="Every one of yours but the token in use here.")
@json_option
def end(ids: tuple[int, ...], others: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""End sessions or tokens, at once.

    A token takes the page sessions along that it opened. Administrators end
    anybody's.

    \b
    JSON: {ended: number}
    """
    if bool(ids) == others:
        raise click.UsageError("name what to end by its ID, or give --others")
    with open_console_as(TokenConsole) as console:
        if others:
            ended = console.revoke_others().ended
        else:
            for token_id in dict.fromkeys(ids):
                console.revoke_token(token_id)
            ended = len(set(ids))
    if as_json:
        print_json({"ended": ended})
    else:
        note(f"ended {count_of(ended, 'sign-in')}")


def _describe(one: TokenView) -> str:
    if one.current:
        return "in use here"
    if one.kind == "personal":
        return one.label or "-"
    return f"from {one.peer or 'unknown'}" + (f", {one.agent[:60]}" if one.agent else "")
