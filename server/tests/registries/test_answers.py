"""What the console makes of a registry's answers, and of what is no answer of a registry."""

import hashlib

import pytest

from server.tests.registries.asking import DIGEST, OTHER_DIGEST, ask
from server.tests.registries.stage import INDEX, VERSION, Answer, Asked, play, refuse
from starforge_console.domain.images import Denied, NoSuchTag, NotAnswered, Resolved
from starforge_console.registries.conversation import BODY_AT_MOST

CONTENT = b'{"schemaVersion": 2}'
FOUND = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


def test_a_tag_is_resolved_by_one_question_without_a_body() -> None:
    with play(lambda _: Answer(headers={"Docker-Content-Digest": DIGEST})) as stage:
        assert ask(f"{stage.address}/team/train:v3") == Resolved(DIGEST)
    assert [(asked.method, asked.path) for asked in stage.asked] == [("HEAD", "/v2/team/train/manifests/v3")]


def test_a_name_without_a_tag_is_asked_for_as_latest() -> None:
    with play(lambda _: Answer(headers={"Docker-Content-Digest": DIGEST})) as stage:
        assert ask(f"{stage.address}/train") == Resolved(DIGEST)
    assert stage.asked[0].path == "/v2/train/manifests/latest"


@pytest.mark.parametrize("told", [None, "", "sha256:short", "md5:1234"])
def test_where_the_digest_is_not_told_it_is_that_of_the_content(told: str | None) -> None:
    headers = {"Content-Type": INDEX} | ({} if told is None else {"Docker-Content-Digest": told})
    with play(lambda _: Answer(headers=headers, body=CONTENT)) as stage:
        assert ask(f"{stage.address}/train:1") == Resolved(FOUND)


@pytest.mark.parametrize("status", [405, 501, 403])
def test_a_registry_that_knows_no_head_is_asked_for_the_content(status: int) -> None:
    def answer(asked: Asked) -> Answer:
        return Answer(status) if asked.method == "HEAD" else Answer(headers={"Content-Type": INDEX}, body=CONTENT)

    with play(answer) as stage:
        assert ask(f"{stage.address}/train:1") == Resolved(FOUND)


def test_an_image_by_digest_is_asked_for_by_it() -> None:
    with play(lambda _: Answer(headers={"Docker-Content-Digest": DIGEST})) as stage:
        assert ask(f"{stage.address}/train:1@{DIGEST}") == Resolved(DIGEST)
    assert stage.asked[0].path == f"/v2/train/manifests/{DIGEST}"


def test_what_the_registry_does_not_have_is_said_in_its_words() -> None:
    with play(lambda _: refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")) as stage:
        assert ask(f"{stage.address}/train:v9") == NoSuchTag("404 MANIFEST_UNKNOWN manifest unknown")


def test_what_the_registry_does_not_let_one_read_is_said_in_its_words() -> None:
    with play(lambda _: refuse(403, "DENIED", "not for you")) as stage:
        assert ask(f"{stage.address}/train:1") == Denied("403 DENIED not for you")


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_that_no_registry_wrote_says_nothing_of_the_image(status: int) -> None:
    page = Answer(status, {"Content-Type": "text/html", "Server": "gate"}, b"<html>denied by policy</html>")
    with play(lambda _: page) as stage:
        answer = ask(f"{stage.address}/train:1")
    assert isinstance(answer, NotAnswered)
    assert "that is no registry" in answer.why


def test_a_page_that_welcomes_everybody_is_no_image() -> None:
    with play(lambda _: Answer(200, {"Content-Type": "text/html"}, b"<html>sign in to the network</html>")) as stage:
        answer = ask(f"{stage.address}/train:1")
    assert isinstance(answer, NotAnswered)
    assert "text/html and no manifest" in answer.why


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_registry_in_trouble_is_no_refusal(status: int) -> None:
    with play(lambda _: refuse(status, "UNAVAILABLE", "try later")) as stage:
        answer = ask(f"{stage.address}/train:1")
    assert isinstance(answer, NotAnswered)
    assert (answer.is_general, str(status) in answer.why) == (True, True)


def test_a_digest_that_is_not_the_contents_is_not_believed() -> None:
    def answer(asked: Asked) -> Answer:
        told = {} if asked.method == "HEAD" else {"Docker-Content-Digest": OTHER_DIGEST}
        return Answer(headers={"Content-Type": INDEX, **told}, body=CONTENT)

    with play(answer) as stage:
        said = ask(f"{stage.address}/train:1")
    assert isinstance(said, NotAnswered)
    assert "not true" in said.why
    assert not said.is_general


@pytest.mark.parametrize("told", [{"Docker-Content-Digest": OTHER_DIGEST}, {"Content-Type": INDEX}])
def test_another_content_than_the_digest_that_was_asked_for_is_not_believed(told: dict[str, str]) -> None:
    with play(lambda _: Answer(headers=told, body=CONTENT)) as stage:
        said = ask(f"{stage.address}/train@{DIGEST}")
    assert isinstance(said, NotAnswered)
    assert "not true" in said.why


def test_a_manifest_without_an_end_is_not_read_to_it() -> None:
    with play(lambda _: Answer(headers={"Content-Type": INDEX}, body=b"x" * (BODY_AT_MOST + 1))) as stage:
        said = ask(f"{stage.address}/train:1")
    assert isinstance(said, NotAnswered)
    assert "longer than 4 MiB" in said.why


def test_a_registry_that_says_nothing_is_waited_for_no_longer_than_the_limit() -> None:
    def answer(_: Asked) -> Answer:
        stage.hold.wait(30)
        return Answer()

    with play(answer) as stage:
        assert ask(f"{stage.address}/train:1", image_timeout_s=0.2) == NotAnswered(
            "no answer within 0.2 s", is_general=True
        )


def test_a_registry_that_is_not_there_is_not_known_to_lack_the_image() -> None:
    with play(lambda _: Answer(headers=VERSION)) as stage:
        address = stage.address
    said = ask(f"{address}/train:1")
    assert isinstance(said, NotAnswered)
    assert said.is_general


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:0"])
def test_an_address_that_is_none_is_said_to_be_none(address: str) -> None:
    assert ask(f"{address}/train:1") == NotAnswered(f"{address} is no address")


@pytest.mark.parametrize("port", ["65536", "9999999999999999999999", "0"])
def test_a_registry_that_leads_to_a_port_that_is_none_is_followed_nowhere(port: str) -> None:
    with play(lambda _: Answer(307, {"Location": f"http://127.0.0.1:{port}/"})) as stage:
        led = ask(f"{stage.address}/train:1")
    with play(lambda _: Answer(401, {"WWW-Authenticate": f'Bearer realm="http://127.0.0.1:{port}/"'})) as stage:
        named = ask(f"{stage.address}/train:1")
    assert isinstance(led, NotAnswered)
    assert isinstance(named, NotAnswered)
    assert "leads to 127.0.0.1" in led.why
    assert "no address" in named.why
