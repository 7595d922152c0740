"""Signing in through an identity provider, against a complete one; and everything that a wrong one may try."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from starlette.testclient import TestClient

from server.tests.accounts.provider import CLIENT_ID, CLIENT_SECRET, Provider, serve_provider
from server.tests.web.support import ConsoleUnderTest
from starforge_console.accounts.oidc import JOURNEY_S
from starforge_console.accounts.sessions import IDLE_S
from starforge_console.settings.oidc import OidcSettings
from starforge_console.web.api import build_api

COOKIE = "starforge_oidc"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve_provider(Provider()) as served:
        yield served


def connect(console: ConsoleUnderTest, provider: Provider, **changes: Any) -> None:
    """Let the console have this provider."""
    settings = OidcSettings(
        **{
            "oidc_issuer": provider.issuer,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": SecretStr(CLIENT_SECRET),
            "oidc_new_users": "member",
            **changes,
        }
    )
    services = console.services
    console.services = replace(
        services, settings=replace(services.settings, oidc=settings), metrics=CollectorRegistry()
    )
    console.app = build_api(console.services, console.app.state.fleet_services)


def depart(client: TestClient, after: str = "/jobs") -> str:
    """Where the browser is sent to."""
    answer = client.get("/oidc/start", params={"next": after}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def visit_provider(address: str) -> str:
    """Where the provider sends the browser back to, as the console's own path."""
    answer = httpx2.get(address, follow_redirects=False)
    back = urlsplit(answer.headers["location"])
    assert f"{back.scheme}://{back.netloc}" == "http://127.0.0.1:7080"
    return f"{back.path}?{back.query}"


def sign_in(console: ConsoleUnderTest, after: str = "/jobs") -> tuple[TestClient, httpx2.Response]:
    client = console.client()
    return client, client.get(visit_provider(depart(client, after)))


def test_whoever_the_provider_names_is_added_and_signed_in(console: ConsoleUnderTest, provider: Provider) -> None:
    connect(console, provider)
    client = console.client()
    page = client.get("/signin?next=/queue").text
    assert "Sign in with single sign-on" in page
    address = depart(client, "/queue")
    asked = dict(parse_qsl(urlsplit(address).query))
    assert asked["redirect_uri"] == "http://127.0.0.1:7080/oidc/callback"
    assert CLIENT_SECRET not in address
    answer = client.get(visit_provider(address))
    assert (answer.url.path, "ann" in answer.text) == ("/queue", True)
    assert provider.refused == []
    assert COOKIE not in client.cookies
    client, answer = sign_in(console)
    assert answer.url.path == "/jobs"
    root = console.client(console.add_user("root", "admin"))
    assert [one["name"] for one in root.get("/api/v1/admin/users").json()["items"]] == ["ann", "root"]
    told = [one["what"] for one in root.get("/api/v1/admin/audit").json()["items"]]
    assert told == [
        "signed in with the identity provider",
        "signed in with the identity provider",
        f"is ann here as u-1 of {provider.issuer}",
        "added user ann as member",
    ]


@pytest.mark.parametrize("how", ["basic", "post", "public"])
def test_the_console_shows_itself_as_the_provider_wants(
    console: ConsoleUnderTest, provider: Provider, how: str
) -> None:
    if how == "post":
        provider.described = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    provider.public = how == "public"
    connect(console, provider, **({"oidc_client_secret": None} if provider.public else {}))
    assert sign_in(console)[1].url.path == "/jobs"


@pytest.mark.parametrize(
    ("alg", "key"),
    [("ES256", ECKey.generate_key("P-256", {"kid": "ec"})), ("PS256", RSAKey.generate_key(2048, {"kid": "ps"}))],
)
def test_signatures_of_keys_that_only_the_provider_has_are_taken(
    console: ConsoleUnderTest, provider: Provider, alg: str, key: RSAKey | ECKey
) -> None:
    provider.alg, provider.keys = alg, [key]
    connect(console, provider)
    assert sign_in(console)[1].url.path == "/jobs"


def test_a_provider_may_change_its_keys(console: ConsoleUnderTest, provider: Provider) -> None:
    connect(console, provider)
    assert sign_in(console)[1].url.path == "/jobs"
    provider.rotate()
    console.clock.ahead_s += 60
    assert sign_in(console)[1].url.path == "/jobs"
    assert provider.seen.count("openid-configuration") == 1


FORGER = RSAKey.generate_key(2048, {"kid": "one"})
SECRET = OctKey.import_key(CLIENT_SECRET.encode())
LIES: dict[str, dict[str, Any]] = {
    "signed by another key": {"forged_with": FORGER},
    "not signed": {"alg": "none"},
    "signed with the client's secret": {"alg": "HS256", "forged_with": SECRET},
    "for another console": {"claims": {"aud": "other"}},
    "for two, and the other is meant": {"claims": {"aud": [CLIENT_ID, "other"], "azp": "other"}},
    "for two, and nobody is meant": {"claims": {"aud": [CLIENT_ID, "other"]}},
    "of another provider": {"claims": {"iss": "https://evil.test"}},
    "over its time": {"claims": {"exp": 1_000_000_000}},
    "without an end": {"claims": {"exp": None}},
    "from the future": {"claims": {"iat": 32_503_680_000}},
    "of another sign-in": {"claims": {"nonce": "other"}},
    "without a nonce": {"claims": {"nonce": None}},
    "of nobody": {"claims": {"sub": None}},
    "of a number": {"claims": {"sub": 7}},
    "of an empty subject": {"claims": {"sub": ""}},
    "without a name": {"person": {"sub": "u-1"}, "userinfo": {"sub": "u-1"}},
    "with a name that cannot be one": {"claims": {"preferred_username": "../root"}},
    "no JSON": {"answer": b"<html>"},
    "a list": {"answer": b"[]"},
    "no token": {"answer": b"{}"},
    "endless": {"answer": b"x" * (2 << 20)},
    "a fault": {"answer": b"{}", "status": 500},
    "a no": {"answer": b'{"error": "access_denied"}', "status": 400},
}
"""What the provider is otherwise than it should be."""


@pytest.mark.parametrize("lie", LIES)
def test_what_a_provider_says_wrongly_signs_nobody_in(console: ConsoleUnderTest, provider: Provider, lie: str) -> None:
    connect(console, provider)
    for name, value in LIES[lie].items():
        setattr(provider, name, value)
    client, answer = sign_in(console)
    assert answer.status_code in {403, 422, 503}, answer.text
    assert "did not sign you in" in answer.text
    assert client.get("/jobs").url.path == "/signin"
    root = console.client(console.add_user("root", "admin"))
    assert [one["name"] for one in root.get("/api/v1/admin/users").json()["items"]] == ["root"]
    assert root.get("/api/v1/admin/audit").json()["items"][0]["what"] == "failed to sign in with the identity provider"


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.test"},
        {"token_endpoint": "http://elsewhere.test/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": "ftp://127.0.0.1/"},
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_not_asked(
    console: ConsoleUnderTest, provider: Provider, described: dict[str, object]
) -> None:
    provider.described = described
    connect(console, provider)
    answer = console.client().get("/oidc/start", follow_redirects=False)
    assert (answer.status_code, "did not sign you in" in answer.text) == (403, True)
    assert provider.seen == ["openid-configuration"]


def test_a_provider_that_is_away_is_said_to_be_and_tokens_go_on(console: ConsoleUnderTest, provider: Provider) -> None:
    connect(console, provider, oidc_issuer="http://127.0.0.1:9/realms/team", oidc_timeout_s=5)
    answer = console.client().get("/oidc/start", follow_redirects=False)
    assert (answer.status_code, "does not answer" in answer.text) == (503, True)
    assert 'name="token"' in answer.text


def test_only_the_browser_that_was_sent_away_comes_back_and_once(console: ConsoleUnderTest, provider: Provider) -> None:
    connect(console, provider)
    client, other = console.client(), console.client()
    back = visit_provider(depart(client))
    assert other.get(back).status_code == 403
    depart(other)
    assert other.get(back).status_code == 403
    assert provider.seen.count("token") == 0
    assert client.get(back).url.path == "/jobs"
    assert client.get(back).status_code == 403
    assert provider.seen.count("token") == 1


def test_a_code_of_another_sign_in_is_refused_by_its_verifier(console: ConsoleUnderTest, provider: Provider) -> None:
    connect(console, provider)
    victim, thief = console.client(), console.client()
    stolen = dict(parse_qsl(urlsplit(visit_provider(depart(victim))).query))
    own = dict(parse_qsl(urlsplit(visit_provider(depart(thief))).query))
    answer = thief.get("/oidc/callback", params={**own, "code": stolen["code"]})
    assert (answer.status_code, provider.refused) == (403, ["verifier"])


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.test"},
        {"iss": ""},
        {"state": ""},
        {"state": "x"},
        {"code": ""},
        {"error": "access_denied"},
    ],
)
def test_an_answer_of_somebody_else_or_without_a_code_is_refused(
    console: ConsoleUnderTest, provider: Provider, changed: dict[str, str]
) -> None:
    connect(console, provider)
    client = console.client()
    given = dict(parse_qsl(urlsplit(visit_provider(depart(client))).query))
    assert client.get("/oidc/callback", params={**given, **changed}).status_code == 403
    assert provider.seen.count("token") == 0


HOSTILE = [
    base64.urlsafe_b64encode(text.encode()).decode()
    for text in ('{"state":"x","nonce":"n","verifier":"v","after":"/","at":1}', '{"at":1' + "0" * 400 + "}", "[" * 2200)
]


@pytest.mark.parametrize("luggage", ["", "x", "e30=", "bnVsbA==", "A" * 10_000, *HOSTILE])
def test_luggage_that_is_none_is_refused(console: ConsoleUnderTest, provider: Provider, luggage: str) -> None:
    connect(console, provider)
    client = console.client()
    client.cookies.set(COOKIE, luggage)
    assert client.get("/oidc/callback?code=x&state=x").status_code == 403
    assert provider.seen.count("token") == 0


def test_a_sign_in_that_takes_too_long_is_begun_anew(console: ConsoleUnderTest, provider: Provider) -> None:
    connect(console, provider)
    client = console.client()
    back = visit_provider(depart(client))
    console.clock.ahead_s += JOURNEY_S + 1
    assert "took too long" in client.get(back).text


def test_nobody_takes_the_name_of_a_user_who_is_here(console: ConsoleUnderTest, provider: Provider) -> None:
    console.add_user("ann", "admin")
    connect(console, provider)
    assert "belongs to another user here" in sign_in(console)[1].text
    connect(console, provider, oidc_match="name")
    assert sign_in(console)[1].url.path == "/jobs"
    provider.person = {"sub": "u-2", "preferred_username": "ann"}
    assert "belongs to another user here" in sign_in(console)[1].text


def test_somebody_who_is_called_otherwise_by_now_is_who_they_were(
    console: ConsoleUnderTest, provider: Provider
) -> None:
    connect(console, provider)
    sign_in(console)
    provider.person = {"sub": "u-1", "preferred_username": "anna"}
    client, answer = sign_in(console)
    assert answer.url.path == "/jobs"
    assert "<dd>ann</dd>" in client.get("/account").text


def test_where_nobody_is_added_only_those_come_in_whom_an_administrator_added(
    console: ConsoleUnderTest, provider: Provider
) -> None:
    connect(console, provider, oidc_new_users="none", oidc_match="name")
    assert "adds nobody" in sign_in(console)[1].text
    console.add_user("ann", "operator")
    client, answer = sign_in(console)
    assert answer.url.path == "/jobs"
    assert 'href="/admin"' in client.get("/overview").text


def test_a_deactivated_user_does_not_come_in(console: ConsoleUnderTest, provider: Provider) -> None:
    root = console.client(console.add_user("root", "admin"))
    connect(console, provider)
    client, _ = sign_in(console)
    root = console.client({"Authorization": root.headers["Authorization"]})
    assert root.put("/api/v1/admin/users/ann/active", json={"active": False}).status_code == 200
    assert client.get("/jobs").url.path == "/signin"
    assert "is deactivated" in sign_in(console)[1].text


@pytest.mark.parametrize(
    ("person", "name"),
    [
        ({"email": "Ann@Example.org", "email_verified": True}, "ann"),
        ({"email": "ann@example.org", "email_verified": False}, None),
        ({"email": "ann@example.org"}, None),
    ],
)
def test_an_address_counts_only_if_it_is_verified(
    console: ConsoleUnderTest, provider: Provider, person: dict[str, object], name: str | None
) -> None:
    provider.person = {"sub": "u-1", **person}
    connect(console, provider, oidc_user_claim="email")
    client, answer = sign_in(console)
    assert (answer.url.path == "/jobs") == (name is not None)
    assert name is None or f"<dd>{name}</dd>" in client.get("/account").text


def test_a_name_may_come_from_what_the_provider_tells_beside_the_token(
    console: ConsoleUnderTest, provider: Provider
) -> None:
    provider.person = {"sub": "u-1"}
    provider.userinfo = {"sub": "u-1", "preferred_username": "ann"}
    connect(console, provider)
    assert sign_in(console)[1].url.path == "/jobs"
    provider.userinfo = {"sub": "u-2", "preferred_username": "root"}
    assert "told of somebody else" in sign_in(console)[1].text


def test_a_session_that_the_provider_opened_ends_when_its_time_is_over_however_it_is_used(
    console: ConsoleUnderTest, provider: Provider
) -> None:
    connect(console, provider, oidc_session_h=24)
    client, _ = sign_in(console)
    for hour in (8, 16, 23):
        console.clock.ahead_s = hour * 3600
        assert client.get("/jobs").url.path == "/jobs"
    console.clock.ahead_s = 24 * 3600 + 60
    assert client.get("/jobs").url.path == "/signin"
    assert IDLE_S > 8 * 3600


def test_no_secret_is_in_the_log_or_on_a_page(
    console: ConsoleUnderTest, provider: Provider, capfd: pytest.CaptureFixture[str]
) -> None:
    connect(console, provider)
    provider.claims = {"aud": "other"}
    _, answer = sign_in(console)
    printed = capfd.readouterr()
    assert CLIENT_SECRET not in answer.text + printed.out + printed.err + repr(console.services.settings.oidc)


@pytest.mark.parametrize("elsewhere", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_nobody_is_led_to_another_site(console: ConsoleUnderTest, provider: Provider, elsewhere: str) -> None:
    connect(console, provider)
    client = console.client()
    answer = client.get(visit_provider(depart(client, elsewhere)), follow_redirects=False)
    assert answer.headers["location"] == "/overview"


def test_without_a_provider_there_is_no_way_and_no_button(console: ConsoleUnderTest) -> None:
    client = console.client()
    assert "/oidc/" not in client.get("/signin").text
    assert client.get("/oidc/start").status_code == 404
    assert client.get("/oidc/callback?code=x&state=x").status_code == 404


@pytest.mark.parametrize(
    "given",
    [
        {"oidc_issuer": "http://id.example.org", "oidc_client_id": "x", "oidc_match": "name"},
        {"oidc_issuer": "https://u:p@id.example.org", "oidc_client_id": "x", "oidc_match": "name"},
        {"oidc_issuer": "id.example.org", "oidc_client_id": "x", "oidc_match": "name"},
        {"oidc_issuer": "https://id.example.org", "oidc_match": "name"},
        {"oidc_issuer": "https://id.example.org", "oidc_client_id": "x"},
        {"oidc_issuer": "https://id.example.org", "oidc_client_id": "x", "oidc_match": "name", "oidc_scopes": "email"},
    ],
)
def test_settings_under_which_nobody_could_sign_in_safely_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"FORGE_|must be"):
        OidcSettings(**given)  # type: ignore[arg-type] # as the environment gives them
