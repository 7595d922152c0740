"""What users of each role may do, and what of that a token with given scopes may do in their name."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Role(StrEnum):
    """What a user is to the console, the widest first."""

    ADMIN = "admin"
    """Everything: users and their limits, logins at registries, the audit log, and all that operators do."""
    OPERATOR = "operator"
    """Looks after machines, queue, windows, maintenance, retention and everybody's jobs."""
    MEMBER = "member"
    """Submits jobs, and stops and deletes their own."""
    VIEWER = "viewer"
    """Reads."""


class Scope(StrEnum):
    """What a personal token may do, as far as its user's role allows it."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


_SCOPES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        Role.ADMIN: frozenset(Scope),
        Role.OPERATOR: frozenset(Scope),
        Role.MEMBER: frozenset({Scope.READ, Scope.SUBMIT}),
        Role.VIEWER: frozenset({Scope.READ}),
    }
)


def scopes_of_role(role: str) -> frozenset[str]:
    """Every scope that a user of this role may let a token have; none for a role that this version does not know."""
    return _SCOPES.get(role, frozenset())


def find_widest(roles: Iterable[Role]) -> Role | None:
    """The role of these that may do most; None of none."""
    given = frozenset(roles)
    return next((role for role in Role if role in given), None)


def narrow_scopes(scopes: Iterable[str], role: str) -> frozenset[str]:
    """What is left of a token's scopes once its user has this role."""
    return frozenset(scopes) & scopes_of_role(role)


def may_operate(role: str, scopes: frozenset[str]) -> bool:
    """Whether a token with these scopes looks after machines, queue and everybody's jobs."""
    return Scope.ADMIN in narrow_scopes(scopes, role)


def may_administer(role: str, scopes: frozenset[str]) -> bool:
    """Whether it does everything."""
    return role == Role.ADMIN and may_operate(role, scopes)
