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
from starforge_console.ledger.accounts import NewToken

PERSONAL_PREFIX: Final = "sfp_"
PERSONAL: Final = "personal"
SIGN_IN: Final = "signin"
PERSONAL_DAYS: Final = 90
LONGEST_DAYS: Final = 3650
SIGN_IN_S: Final = 3600.0
_DAY_S: Final = 86400.0
MADE_HERE: Final = say("token.made_here")
MADE_AT_SIGN_IN: Final = say("token.made_at_sign_in")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A fresh token: its text, which nobody can read again, and what the ledger keeps of it."""

    text: Secret
    kept: NewToken


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


def make_personal_token(user_id: int, scopes: frozenset[str], label: str, now: float, days: float) -> Issued:
    """A token with which `sf` speaks for the user. Raises InputError for a life outside of (0, 3650] days."""
    if not 0 < days <= LONGEST_DAYS:
        raise InputError(say("form.no_days", days=f"{days:g}"), next_step=say("form.no_days_next", most=LONGEST_DAYS))
    text = PERSONAL_PREFIX + secrets.token_urlsafe(32)
    return _issue(text, user_id=user_id, kind=PERSONAL, scopes=scopes, label=label, expires_at=now + days * _DAY_S)


def make_sign_in_code(user_id: int, now: float) -> Issued:
    """A code for the sign-in page, good for one use within an hour."""
    text = secrets.token_urlsafe(32)
    return _issue(
        text, user_id=user_id, kind=SIGN_IN, scopes=frozenset(), label="sign-in link", expires_at=now + SIGN_IN_S
    )


def _issue(  # noqa: PLR0913 - one parameter for each column that differs
    text: str, *, user_id: int, kind: str, scopes: frozenset[str], label: str, expires_at: float
) -> Issued:
    kept = NewToken(
        user_id=user_id, kind=kind, hash=hash_token(text), scopes=scopes, label=label, expires_at=expires_at
    )
    return Issued(text=Secret(text), kept=kept)
