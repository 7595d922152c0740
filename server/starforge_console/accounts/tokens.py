"""How personal tokens and sign-in codes are made; what is kept of them is a `NewToken` with the hash alone."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starforge.contract.launch import Secret
from starforge.errors import InputError
from starforge.said.sentence import say
from starforge_console.domain.roles import Scope, scopes_of_role
from starforge_console.domain.tokens import hash_token
from starforge_console.ledger.accounts import PERSONAL, Bound, NewToken

PERSONAL_PREFIX: Final = "sfp_"
SIGN_IN: Final = "signin"
PERSONAL_DAYS: Final = 90
LONGEST_DAYS: Final = 3650
SIGN_IN_S: Final = 3600.0
DAY_S: Final = 86400.0
MADE_HERE: Final = say("token.made_here")
MADE_AT_SIGN_IN: Final = say("token.made_at_sign_in")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A fresh token: its text, which nobody can read again, and what the ledger keeps of it."""

    text: Secret
    kept: NewToken
    days: float = 0.0
    """How long it lives."""
    cut_at: float | None = None
    """When it ends, where that is earlier than was asked for (Unix seconds)."""


def find_cut(bound: Bound | None, expires_at: float) -> float | None:
    """When what was to end at `expires_at` ends in truth, where its bound is earlier."""
    return bound.until if bound is not None and bound.until < expires_at else None


def find_label(label: str) -> str:
    """The label as it is read: one that the console gave itself, and nobody wrote, in every language."""
    return next((own for own in (MADE_HERE, MADE_AT_SIGN_IN) if own == label), label)


def parse_scopes(names: Iterable[str], role: str) -> frozenset[str]:
    """`names` as scopes that a user of `role` may give away; reading is always among them.

    Raises:
        InputError: a scope that does not exist, or that the role does not have.

    """
    wanted = {name.strip() for name in names if name.strip()}
    known = {scope.value for scope in Scope}
    for name in sorted(wanted - known):
        raise InputError(
            say("form.no_scope", name=repr(name)), next_step=say("form.no_scope_next", scopes=", ".join(sorted(known)))
        )
    beyond = sorted(wanted - scopes_of_role(role))
    if beyond:
        raise InputError(say("form.scope_beyond", role=role, scope=repr(beyond[0])), next_step=say("form.leave_it_out"))
    return frozenset(wanted | {Scope.READ.value})


def make_personal_token(  # noqa: PLR0913 - one parameter for each thing that tokens differ in
    user_id: int, scopes: frozenset[str], label: str, now: float, days: float, *, bound: Bound | None = None
) -> Issued:
    """A token with which `sf` speaks for the user, no longer than `bound` lets it.

    Raises InputError for a life outside of (0, 3650] days.
    """
    if not 0 < days <= LONGEST_DAYS:
        raise InputError(say("form.no_days", days=f"{days:g}"), next_step=say("form.no_days_next", most=LONGEST_DAYS))
    text = PERSONAL_PREFIX + secrets.token_urlsafe(32)
    cut_at = find_cut(bound, now + days * DAY_S)
    expires_at = now + days * DAY_S if cut_at is None else cut_at
    kept = NewToken(
        user_id=user_id,
        kind=PERSONAL,
        hash=hash_token(text),
        scopes=scopes,
        label=label,
        expires_at=expires_at,
        opened_by=None if bound is None else bound.token,
    )
    return Issued(text=Secret(text), kept=kept, days=(expires_at - now) / DAY_S, cut_at=cut_at)


def make_sign_in_code(user_id: int, now: float, bound: Bound | None = None) -> Issued:
    """A code for the sign-in page, good for one use within an hour; what it gives ends as `bound` says, at `cut_at`."""
    text = secrets.token_urlsafe(32)
    kept = NewToken(
        user_id=user_id,
        kind=SIGN_IN,
        hash=hash_token(text),
        scopes=frozenset(),
        label="sign-in link",
        expires_at=min(now + SIGN_IN_S, now + SIGN_IN_S if bound is None else bound.until),
        opened_by=None if bound is None else bound.token,
    )
    return Issued(text=Secret(text), kept=kept, cut_at=find_cut(bound, now + PERSONAL_DAYS * DAY_S))
