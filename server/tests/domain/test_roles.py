import pytest

from starforge_console.domain.roles import Role, Scope, may_administer, may_operate, narrow_scopes, scopes_of_role

EVERYTHING = frozenset(Scope)


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.VIEWER, ({"read"}, False, False)),
        (Role.MEMBER, ({"read", "submit"}, False, False)),
        (Role.OPERATOR, ({"read", "submit", "admin"}, True, False)),
        (Role.ADMIN, ({"read", "submit", "admin"}, True, True)),
        ("king", (set(), False, False)),
    ],
)
def test_a_role_bounds_what_a_token_with_every_scope_may_do(role: str, may: tuple[set[str], bool, bool]) -> None:
    told = (set(narrow_scopes(EVERYTHING, role)), may_operate(role, EVERYTHING), may_administer(role, EVERYTHING))
    assert told == may


@pytest.mark.parametrize("role", list(Role))
def test_a_token_without_the_scope_never_administers_whatever_the_role(role: Role) -> None:
    scopes = scopes_of_role(role) - {Scope.ADMIN}
    assert not may_operate(role, scopes)
    assert not may_administer(role, scopes)
