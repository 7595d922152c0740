"""Roles that the groups at an identity provider give: anew at each sign-in, and never for want of an answer."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from server.tests.accounts.provider import Provider, serve_provider
from server.tests.pages.test_oidc import connect, sign_in
from server.tests.web.support import ConsoleUnderTest
from starforge_console.domain.roles import Role
from starforge_console.settings.oidc import OidcSettings

ROLES = "ml-admins=admin, /team/gpu=operator, ml=member"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve_provider(Provider()) as served:
        yield served


def be_in(provider: Provider, *groups: str, subject: str = "u-1", name: str = "ann") -> None:
    provider.person = {"sub": subject, "preferred_username": name, "groups": list(groups)}


def role_of(root: TestClient, name: str = "ann") -> str | None:
    users = {one["name"]: one["role"] for one in root.get("/api/v1/admin/users").json()["items"]}
    return users.get(name)


def root_of(console: ConsoleUnderTest, headers: dict[str, str]) -> TestClient:
    """A client of the application as it is by now."""
    return console.client(headers)


@pytest.fixture
def headers(console: ConsoleUnderTest, provider: Provider) -> dict[str, str]:
    made = console.add_user("root", "admin")
    connect(console, provider, oidc_roles=ROLES, oidc_new_users="none")
    return made


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (("ml",), "member"),
        (("ml", "/team/gpu", "others"), "operator"),
        (("/team/gpu", "ml-admins"), "admin"),
    ],
)
def test_whoever_comes_for_the_first_time_has_the_widest_role_of_their_groups(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str], groups: tuple[str, ...], role: str
) -> None:
    be_in(provider, *groups)
    assert sign_in(console)[1].url.path == "/jobs"
    assert role_of(root_of(console, headers)) == role


def test_a_change_of_groups_counts_at_the_next_sign_in_for_tokens_of_before_too_and_is_told(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str]
) -> None:
    be_in(provider, "ml-admins")
    before, _ = sign_in(console)
    token = console.client(console.add_token(2, frozenset({"read", "submit", "admin"})))
    assert token.get("/api/v1/admin/users").status_code == 200
    be_in(provider, "ml")
    sign_in(console)
    assert token.get("/api/v1/admin/users").status_code == 403
    assert before.get("/admin").status_code == 403
    told = root_of(console, headers).get("/api/v1/admin/audit", params={"act": "user_role_by_groups"}).json()["items"]
    assert [(one["user"], one["what"]) for one in told] == [
        ("ann", "made ann, who was admin, member, as the groups at the identity provider say")
    ]
    sign_in(console)
    again = root_of(console, headers).get("/api/v1/admin/audit", params={"act": "user_role_by_groups"}).json()["items"]
    assert again == told, "what stays as it is is no act"


def test_whoever_is_in_no_group_any_more_stays_out_and_reads_at_the_most_with_what_they_have(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str]
) -> None:
    be_in(provider, "/team/gpu")
    sign_in(console)
    be_in(provider, "others")
    _, answer = sign_in(console)
    assert answer.status_code == 403
    assert "none of your groups" in answer.text
    assert role_of(root_of(console, headers)) == "viewer"


def test_a_stranger_without_a_group_is_not_added(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str]
) -> None:
    be_in(provider)
    assert sign_in(console)[1].status_code == 403
    assert role_of(root_of(console, headers)) is None


def test_without_a_group_one_has_the_role_of_new_users_where_there_is_one(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str]
) -> None:
    connect(console, provider, oidc_roles=ROLES, oidc_new_users="viewer")
    be_in(provider, "ml-admins")
    sign_in(console)
    be_in(provider, "others")
    assert sign_in(console)[1].url.path == "/jobs"
    assert role_of(root_of(console, headers)) == "viewer"


@pytest.mark.parametrize("groups", [None, 7, [1, 2], {"ml-admins": True}])
def test_a_provider_that_does_not_say_the_groups_signs_nobody_in_and_changes_nothing(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str], groups: object
) -> None:
    be_in(provider, "/team/gpu")
    sign_in(console)
    provider.claims, provider.userinfo = {"groups": groups}, {"sub": "u-1"}
    _, answer = sign_in(console)
    assert answer.status_code == 403
    assert "does not say your groups" in answer.text
    assert role_of(root_of(console, headers)) == "operator"


@pytest.mark.parametrize("groups", ["ml-admins", ["ml-admins"]])
def test_groups_may_be_one_text_and_may_stand_beside_the_token(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str], groups: object
) -> None:
    provider.person = {"sub": "u-1", "preferred_username": "ann"}
    provider.userinfo = {"sub": "u-1", "groups": groups}
    assert sign_in(console)[1].url.path == "/jobs"
    assert role_of(root_of(console, headers)) == "admin"


def test_the_last_administrator_stays_one_whatever_the_groups_say(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str]
) -> None:
    be_in(provider, "ml-admins")
    sign_in(console)
    root = root_of(console, headers)
    assert root.put("/api/v1/admin/users/root/role", json={"role": "member"}).status_code == 200
    be_in(provider, "ml")
    client, answer = sign_in(console)
    assert answer.url.path == "/jobs"
    assert client.get("/admin").status_code == 200


def test_without_the_setting_groups_change_nothing(
    console: ConsoleUnderTest, provider: Provider, headers: dict[str, str]
) -> None:
    connect(console, provider, oidc_new_users="viewer")
    be_in(provider, "ml-admins")
    sign_in(console)
    assert role_of(root_of(console, headers)) == "viewer"


def test_roles_are_read_from_the_setting() -> None:
    settings = OidcSettings(oidc_roles=" a=b=admin,, /team/gpu = operator ")
    assert settings.group_roles == {"a=b": Role.ADMIN, "/team/gpu": Role.OPERATOR}


@pytest.mark.parametrize("text", ["ml", "=admin", "ml=king", "ml=admin;x", "ml="])
def test_what_names_no_role_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="GROUP=ROLE"):
        OidcSettings(oidc_roles=text)
