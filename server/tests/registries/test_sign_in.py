"""How the console signs in to registries, and to whom it never tells its login."""

import base64
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from server.tests.registries.asking import DIGEST, LOGIN, ask
from server.tests.registries.stage import Answer, Asked, play, play_over_tls, refuse
from starforge_console.domain.images import Denied, NotAnswered, Resolved

BASIC = "Basic " + base64.b64encode(b"puller:a-long-password").decode()
FOUND = Answer(headers={"Docker-Content-Digest": DIGEST})
TOKEN = Answer(headers={"Content-Type": "application/json"}, body=b'{"token": "abc.def"}')
REGISTRY = "registry.site.example"


def behind(challenge: str, wanted: str, at_token: Callable[[Asked], Answer] = lambda _: TOKEN) -> Callable[..., Answer]:
    """A registry that lets in who sends `wanted`, and sends others to sign in; tokens are had at /token."""

    def answer(asked: Asked) -> Answer:
        if asked.path == "/token":
            return at_token(asked)
        if asked.authorization == wanted:
            return FOUND
        return refuse(401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": challenge})

    return answer


def test_a_registry_that_wants_a_token_gives_one_to_everybody_for_the_one_repository() -> None:
    with play() as stage:
        challenge = f'Bearer realm="http://{stage.address}/token?a=b",service="reg",scope="registry:catalog:*"'
        stage.answer = behind(challenge, "Bearer abc.def")
        assert ask(f"{stage.address}/team/train:1") == Resolved(DIGEST)
    (asked,) = [asked for asked in stage.asked if asked.path == "/token"]
    assert asked.query == {"a": "b", "service": "reg", "scope": "repository:team/train:pull"}
    assert asked.authorization is None


def test_a_login_is_told_where_tokens_are_had_and_not_with_the_question() -> None:
    with play() as stage:
        stage.answer = behind(f'Bearer realm="http://{stage.address}/token"', "Bearer abc.def")
        assert ask(f"{stage.address}/train:1", {stage.address: LOGIN}) == Resolved(DIGEST)
    assert {(asked.path == "/token", asked.authorization) for asked in stage.asked} == {
        (False, None),
        (True, BASIC),
        (False, "Bearer abc.def"),
    }


def test_a_registry_that_wants_name_and_password_gets_them() -> None:
    with play(behind('Basic realm="here"', BASIC)) as stage:
        assert ask(f"{stage.address}/train:1", {stage.address: LOGIN}) == Resolved(DIGEST)
    assert [asked.authorization for asked in stage.asked] == [None, BASIC]


def test_without_a_login_it_is_said_that_one_is_wanted() -> None:
    with play(behind('Basic realm="here"', BASIC)) as stage:
        assert ask(f"{stage.address}/train:1") == Denied("it wants a login, and the console has none for it")


def test_a_login_that_is_refused_is_said_to_be_and_is_not_shown() -> None:
    def answer(asked: Asked) -> Answer:
        said = f"you sent {asked.authorization} and a-long-password"
        return refuse(401, "UNAUTHORIZED", said, {"WWW-Authenticate": "Basic realm=x"})

    with play(answer) as stage, capture_logs() as logs:
        said = ask(f"{stage.address}/train:1", {stage.address: LOGIN})
    assert said == Denied("401 UNAUTHORIZED you sent Basic *** and ***", had_login=True)
    (entry,) = logs
    assert (entry["registry"], entry["username"], entry["why"]) == (stage.address, "puller", said.why)
    assert LOGIN.password.reveal() not in str(entry)


def test_a_login_that_is_refused_where_tokens_are_had_is_said_to_be() -> None:
    with play() as stage:
        challenge = f'Bearer realm="http://{stage.address}/token"'
        details = Answer(401, {"Content-Type": "application/json"}, b'{"details": "incorrect username or password"}')
        stage.answer = behind(challenge, "nothing", lambda _: details)
        said = ask(f"{stage.address}/train:1", {stage.address: LOGIN})
    assert said == Denied("127.0.0.1: 401 incorrect username or password", had_login=True)


def test_a_token_that_does_not_let_in_is_a_refusal() -> None:
    with play() as stage:
        stage.answer = behind(f'Bearer realm="http://{stage.address}/token"', "another")
        assert ask(f"{stage.address}/train:1") == Denied("401 UNAUTHORIZED authentication required")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"token": 7}', b'{"token": "a\\r\\nb"}', b"<html>", b"[" * 100_000])
def test_what_is_no_token_is_not_sent(body: bytes) -> None:
    with play() as stage:
        challenge = f'Bearer realm="http://{stage.address}/token"'
        stage.answer = behind(challenge, "nothing", lambda _: replace(TOKEN, body=body))
        said = ask(f"{stage.address}/train:1")
    assert isinstance(said, NotAnswered)
    assert "gave no token" in said.why


@pytest.mark.parametrize("challenge", ["Negotiate", "", "Digest realm=x"])
def test_a_way_to_sign_in_that_is_not_spoken_is_said_to_be_wanted(challenge: str) -> None:
    with play(behind(challenge, "nothing")) as stage:
        said = ask(f"{stage.address}/train:1", {stage.address: LOGIN})
    assert said == Denied("it wants a way to sign in that the console does not speak")


@pytest.mark.parametrize("realm", ["http://192.0.2.1/token", "ftp://127.0.0.1/token", "http://a:b@127.0.0.1/", "x", ""])
def test_nobody_signs_in_at_an_address_that_is_not_over_tls(realm: str) -> None:
    with play(behind(f'Bearer realm="{realm}"', "nothing")) as stage:
        said = ask(f"{stage.address}/train:1", {stage.address: LOGIN})
    assert isinstance(said, NotAnswered)
    assert "no address over TLS" in said.why


def test_without_tls_no_login_is_told_to_another_host_than_the_registrys() -> None:
    with play(lambda _: TOKEN) as elsewhere, play() as stage:
        place = elsewhere.address.replace("127.0.0.1", "localhost")
        stage.answer = behind(f'Bearer realm="http://{place}/token"', "Bearer abc.def")
        said = ask(f"{stage.address}/train:1", {stage.address: LOGIN})
        assert (isinstance(said, NotAnswered), elsewhere.asked) == (True, [])
        assert ask(f"{stage.address}/train:1") == Resolved(DIGEST)


def test_over_tls_the_login_goes_where_the_registry_says(monkeypatch: pytest.MonkeyPatch) -> None:
    challenge = 'Bearer realm="https://auth.site.example/token",service="reg"'
    with play_over_tls(behind(challenge, "Bearer abc.def")) as (stage, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN}) == Resolved(DIGEST)
    assert {(asked.host, asked.authorization) for asked in stage.asked} == {
        (REGISTRY, None),
        ("auth.site.example", BASIC),
        (REGISTRY, "Bearer abc.def"),
    }
    assert set(stage.proxied) == {"registry.site.example:443", "auth.site.example:443"}


def test_from_tls_nobody_is_led_to_plain_http_to_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with play(lambda _: TOKEN) as elsewhere:
        challenge = f'Bearer realm="http://{elsewhere.address}/token"'
        with play_over_tls(behind(challenge, "Bearer abc.def")) as (_, environment):
            for name, value in environment.items():
                monkeypatch.setenv(name, value)
            said = ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN})
    assert (isinstance(said, NotAnswered), elsewhere.asked) == (True, [])


def test_whoever_a_registry_leads_to_is_not_told_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.host == "other.site.example":
            return FOUND if asked.path == "/there" else refuse(404, "NAME_UNKNOWN", "")
        if asked.authorization == BASIC:
            return Answer(307, {"Location": "https://other.site.example/there"})
        return refuse(401, "UNAUTHORIZED", "", {"WWW-Authenticate": "Basic realm=x"})

    with play_over_tls(answer) as (stage, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN}) == Resolved(DIGEST)
    assert [asked.authorization for asked in stage.asked if asked.host == "other.site.example"] == [None]


def test_whoever_a_registry_leads_to_cannot_ask_for_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.host == REGISTRY:
            return Answer(307, {"Location": "https://other.site.example/there"})
        return refuse(401, "UNAUTHORIZED", "", {"WWW-Authenticate": "Basic realm=x"})

    with play_over_tls(answer) as (stage, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        said = ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN})
    assert isinstance(said, NotAnswered)
    assert "other.site.example" in said.why
    assert {asked.authorization for asked in stage.asked} == {None}


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "http://registry.site.example/v2/", "ftp://x/"])
def test_from_tls_nobody_is_led_to_plain_http(monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    with play_over_tls(lambda _: Answer(302, {"Location": location})) as (stage, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert isinstance(ask(f"{REGISTRY}/train:1"), NotAnswered)
    assert len(stage.asked) == 1


def test_a_registry_that_leads_in_circles_is_left() -> None:
    with play(lambda asked: Answer(302, {"Location": asked.path})) as stage:
        assert ask(f"{stage.address}/train:1") == NotAnswered("it leads on more than 3 times")
    assert len(stage.asked) == 4


def test_a_proxy_that_lets_nobody_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with play_over_tls(lambda _: FOUND) as (stage, environment):
        stage.proxy_refuses = True
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        said = ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN})
    assert isinstance(said, NotAnswered)
    assert said.why.startswith("the proxy says: 403")


def test_no_proxy_leads_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with play(lambda _: FOUND) as stage:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        assert ask(f"{stage.address}/train:1") == Resolved(DIGEST)


def test_a_registry_whose_certificate_nobody_vouches_for_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with play_over_tls(lambda _: FOUND) as (stage, environment):
        monkeypatch.setenv("HTTPS_PROXY", environment["HTTPS_PROXY"])
        said = ask(f"{REGISTRY}/train:1", {REGISTRY: LOGIN})
    assert isinstance(said, NotAnswered)
    assert ("certificate" in said.why.lower(), stage.asked) == (True, [])
