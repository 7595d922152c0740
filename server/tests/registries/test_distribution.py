"""The same questions to the registry that most of the world runs."""

import asyncio
from pathlib import Path

import pytest

from e2e.support.distribution import BINARY, PASSWORD, USER, distribution
from server.tests.clocks import HandClock
from server.tests.registries.asking import ask, build_registries
from starforge.contract.launch import RegistryLogin, Secret
from starforge_console.domain.images import Denied, ImageAnswer, NoSuchTag, Resolved
from starforge_console.registries.asking import KEPT_S

pytestmark = [
    pytest.mark.registry,
    pytest.mark.skipif(
        BINARY is None, reason="docker-registry is not installed: a registry that the tests play stands in for it"
    ),
]


def test_an_open_registry_tells_what_a_tag_means_now(tmp_path: Path) -> None:
    clock = HandClock()

    async def ask_twice(address: str) -> tuple[ImageAnswer | None, ImageAnswer | None, str]:
        registries = build_registries(clock=clock)
        first = await registries.ask(f"{address}/team/train:v3")
        moved = await asyncio.to_thread(registry.push, "team/train", "v3", "second")
        clock.at += KEPT_S
        return first, await registries.ask(f"{address}/team/train:v3"), moved

    with distribution(tmp_path) as registry:
        digest = registry.push("team/train", "v3", "first")
        first, second, moved = asyncio.run(ask_twice(registry.address))
        assert (first, second) == (Resolved(digest), Resolved(moved))
        assert ask(f"{registry.address}/team/train@{digest}") == Resolved(digest)


def test_an_open_registry_tells_what_it_does_not_have(tmp_path: Path) -> None:
    with distribution(tmp_path) as registry:
        registry.push("train", "v3", "first")
        for name in ("train:v4", "train@sha256:" + "0" * 64, "other:v3"):
            said = ask(f"{registry.address}/{name}")
            assert isinstance(said, NoSuchTag)
            assert "MANIFEST_UNKNOWN" in said.why


def test_a_registry_behind_a_login_is_read_by_who_has_it(tmp_path: Path) -> None:
    good, bad = (RegistryLogin(username=USER, password=Secret(text)) for text in (PASSWORD, "another"))
    with distribution(tmp_path, login=True) as registry:
        image, digest = f"{registry.address}/train:v3", registry.push("train", "v3", "first")
        assert ask(image, {registry.address: good}) == Resolved(digest)
        assert ask(image) == Denied("it wants a login, and the console has none for it")
        refused = ask(image, {registry.address: bad})
    assert isinstance(refused, Denied)
    assert (refused.had_login, "UNAUTHORIZED" in refused.why) == (True, True)
