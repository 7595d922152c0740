"""Who is asked about an image, and how often."""

import asyncio
from itertools import count

import pytest

from server.tests.clocks import HandClock
from server.tests.registries.asking import DIGEST, LOGIN, OTHER_DIGEST, ask, build_registries
from server.tests.registries.stage import Answer, Asked, play, play_over_tls, refuse
from starforge.errors import InputError
from starforge_console.domain.images import ImageAnswer, NoSuchTag, NotAnswered, Resolved, parse_registry
from starforge_console.registries.asking import KEPT_S, SILENCE_KEPT_S

FOUND = Answer(headers={"Docker-Content-Digest": DIGEST})


@pytest.mark.parametrize(
    "image", ["train:1", "team/train", "docker.io/library/python:3", "sha256:" + "0" * 64, "A:b:c"]
)
def test_a_name_that_is_a_machines_own_is_asked_for_nowhere(image: str) -> None:
    assert ask(image) is None


def test_nobody_is_asked_where_that_is_switched_off() -> None:
    with play(lambda _: FOUND) as stage:
        assert ask(f"{stage.address}/train:1", image_resolve="off") is None
        assert stage.asked == []


@pytest.mark.parametrize(
    ("login", "settings"), [({}, {"image_ask_docker_hub": True}), ({"docker.io": LOGIN}, {})], ids=["setting", "login"]
)
def test_docker_hub_is_asked_where_an_administrator_named_it(
    monkeypatch: pytest.MonkeyPatch, login: dict[str, object], settings: dict[str, bool]
) -> None:
    with play_over_tls(lambda _: FOUND) as (stage, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert ask("python:3.11", login, **settings) == Resolved(DIGEST)  # type: ignore[arg-type]  # logins alone
        assert ask("index.docker.io/team/train", login, **settings) == Resolved(DIGEST)  # type: ignore[arg-type]  # same
    assert {(asked.host, asked.path) for asked in stage.asked} == {
        ("registry-1.docker.io", "/v2/library/python/manifests/3.11"),
        ("registry-1.docker.io", "/v2/team/train/manifests/latest"),
    }


def test_a_registry_speaks_plain_http_where_an_administrator_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with play(lambda _: FOUND) as stage:
        monkeypatch.setenv("HTTP_PROXY", f"http://{stage.address}")
        assert ask("registry.example:5000/train:1", image_plain_http="registry.example:5000") == Resolved(DIGEST)
        assert [asked.host for asked in stage.asked] == ["registry.example:5000"]


def test_submissions_at_the_same_time_ask_once() -> None:
    async def ask_all(image: str) -> set[ImageAnswer | None]:
        registries = build_registries()
        return set(await asyncio.gather(*(registries.ask(image) for _ in range(500))))

    with play(lambda _: FOUND) as stage:
        assert asyncio.run(ask_all(f"{stage.address}/train:1")) == {Resolved(DIGEST)}
        assert len(stage.asked) == 1


def test_a_tag_that_moves_is_seen_once_the_answer_is_too_old() -> None:
    digests = iter([DIGEST, OTHER_DIGEST])
    clock = HandClock()

    async def ask_thrice(image: str) -> list[ImageAnswer | None]:
        registries = build_registries(clock=clock)
        first = [await registries.ask(image), await registries.ask(image)]
        clock.at += KEPT_S
        return [*first, await registries.ask(image)]

    with play(lambda _: Answer(headers={"Docker-Content-Digest": next(digests)})) as stage:
        said = asyncio.run(ask_thrice(f"{stage.address}/train:1"))
    assert said == [Resolved(DIGEST), Resolved(DIGEST), Resolved(OTHER_DIGEST)]


def test_an_image_that_was_missing_is_asked_for_again_at_once() -> None:
    answers = iter([refuse(404, "MANIFEST_UNKNOWN", ""), refuse(404, "MANIFEST_UNKNOWN", ""), FOUND])

    async def ask_twice(image: str) -> list[ImageAnswer | None]:
        registries = build_registries()
        return [await registries.ask(image), await registries.ask(image)]

    with play(lambda _: next(answers)) as stage:
        assert asyncio.run(ask_twice(f"{stage.address}/train:1")) == [
            NoSuchTag("404 MANIFEST_UNKNOWN"),
            Resolved(DIGEST),
        ]


def test_a_registry_that_does_not_answer_is_left_alone_for_a_minute_whatever_the_image() -> None:
    clock, numbers = HandClock(), count()

    async def ask_thrice(address: str) -> list[bool]:
        registries = build_registries(clock=clock)
        first = [await registries.ask(f"{address}/train:{next(numbers)}") for _ in range(2)]
        clock.at += SILENCE_KEPT_S
        return [isinstance(said, NotAnswered) for said in (*first, await registries.ask(f"{address}/train:9"))]

    with play(lambda _: refuse(503, "UNAVAILABLE", "")) as stage:
        assert asyncio.run(ask_thrice(stage.address)) == [True, True, True]
        assert stage.count("HEAD") == 2


def test_what_is_wrong_with_one_image_silences_its_registry_for_no_other() -> None:
    def answer(asked: Asked) -> Answer:
        return FOUND if asked.path.startswith("/v2/well/") else Answer(302, {"Location": asked.path})

    async def ask_both(address: str) -> list[ImageAnswer | None]:
        registries = build_registries()
        return [await registries.ask(f"{address}/{name}:1") for name in ("ill", "well")]

    with play(answer) as stage:
        assert asyncio.run(ask_both(stage.address)) == [
            NotAnswered("it leads on more than 3 times"),
            Resolved(DIGEST),
        ]


def test_a_registry_whose_login_changed_is_asked_anew() -> None:
    answers = iter([refuse(503, "UNAVAILABLE", ""), FOUND])

    async def ask_twice(address: str) -> list[ImageAnswer | None]:
        registries = build_registries()
        first = await registries.ask(f"{address}/train:1")
        registries.forget(address)
        return [first, await registries.ask(f"{address}/train:1")]

    with play(lambda _: next(answers)) as stage:
        assert asyncio.run(ask_twice(stage.address))[1] == Resolved(DIGEST)


@pytest.mark.parametrize(
    ("text", "registry"),
    [
        ("registry.example", "registry.example"),
        ("Registry.Example:5000", "registry.example:5000"),
        ("localhost", "localhost"),
        ("[::1]:5000", "[::1]:5000"),
        ("docker.io", "docker.io"),
        ("index.docker.io", "docker.io"),
    ],
)
def test_a_registry_is_written_as_images_name_it(text: str, registry: str) -> None:
    assert parse_registry(text) == registry


@pytest.mark.parametrize(
    "text", ["", "registry", "https://registry.example", "registry.example/team", "a b.c", "x.y:z"]
)
def test_what_no_image_could_name_is_no_registry(text: str) -> None:
    with pytest.raises(InputError):
        parse_registry(text)


def test_a_registry_that_does_not_answer_leaves_room_for_the_others() -> None:
    def answer(_: Asked) -> Answer:
        silent.hold.wait(30)
        return FOUND

    async def ask_all() -> ImageAnswer | None:
        registries = build_registries(image_timeout_s=1.0)
        asked = [asyncio.create_task(registries.ask(f"{silent.address}/image-{number}:1")) for number in range(300)]
        await asyncio.sleep(0)
        found = await registries.ask(f"{other.address}/train:1")
        await asyncio.gather(*asked)
        return found

    with play(answer) as silent, play(lambda _: FOUND) as other:
        assert asyncio.run(ask_all()) == Resolved(DIGEST)
