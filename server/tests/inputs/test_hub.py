"""What the console makes of a hub's answers, and of what is no answer of the hub."""

import asyncio
import resource

import pytest

from e2e.support.hub import COMMIT, HubServer, Repo, serve_hub
from server.tests.clocks import HandClock
from starforge_console.domain.inputs import HubAnswer, HubRef, HubStanding
from starforge_console.inputs.hub import KEPT_S, Hub
from starforge_console.settings.console import HubSettings

MODEL = HubRef("model", "a/b", "main")
FILES = {"README.md": b"# b", "config.json": b"{}"}


def build_hub(server: HubServer, token: str = "", timeout_s: float = 5.0, clock: HandClock | None = None) -> Hub:
    settings = HubSettings(hf_endpoint=server.endpoint, hf_token=token, hf_timeout_s=timeout_s)
    return Hub(settings, clock or HandClock())


def ask(server: HubServer, ref: HubRef = MODEL, token: str = "", timeout_s: float = 5.0) -> HubAnswer:
    return asyncio.run(build_hub(server, token, timeout_s).ask(ref))


def test_a_model_that_may_be_read_is_pinned_to_its_commit() -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        assert ask(server) == HubAnswer(HubStanding.READABLE, commit=COMMIT)
        assert ("HEAD", f"/a/b/resolve/{COMMIT}/config.json", None, None) in server.requests


def test_a_dataset_is_asked_for_among_datasets_and_a_model_of_that_name_is_none() -> None:
    with serve_hub(datasets_a_b=Repo(FILES)) as server:
        assert ask(server, HubRef("dataset", "a/b", "main")).standing is HubStanding.READABLE
        assert ask(server).standing is HubStanding.NOT_FOUND


def test_a_revision_that_is_not_there_is_told_from_a_repository_that_is_not() -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        assert ask(server, HubRef("model", "a/b", "v9")).standing is HubStanding.REVISION_NOT_FOUND
        assert ask(server, HubRef("model", "a/c", "main")).standing is HubStanding.NOT_FOUND


def test_a_private_model_is_there_for_the_token_that_may_read_it_and_for_no_other() -> None:
    with serve_hub(models_a_b=Repo(FILES, token="hf_ours")) as server:  # noqa: S106 - made up
        assert ask(server, token="hf_ours").standing is HubStanding.READABLE  # noqa: S106 - made up
        assert ask(server, token="hf_other").standing is HubStanding.NOT_FOUND  # noqa: S106 - made up
        assert ask(server).standing is HubStanding.NOT_FOUND


def test_a_gated_model_is_told_apart_although_the_hub_describes_it_to_everybody() -> None:
    with serve_hub(models_a_b=Repo(FILES, gated=True)) as server:
        assert ask(server).standing is HubStanding.GATED


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_hub_in_trouble_is_no_refusal(status: int) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.status = status
        assert ask(server).standing is HubStanding.DISTURBED


@pytest.mark.parametrize("status", [403, 404, 407, 200])
def test_an_answer_of_something_in_between_is_not_the_hubs(status: int) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.proxy_status = status
        assert ask(server).standing is HubStanding.BLOCKED


def test_the_hubs_own_refusal_is_told_from_a_proxys() -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.status = 403
        assert ask(server).standing is HubStanding.FORBIDDEN


def test_a_hub_that_repeats_the_token_in_its_error_tells_it_to_nobody() -> None:
    with serve_hub(models_a_b=Repo(FILES, gated=True)) as server:
        server.echoes = True
        answer = ask(server, MODEL, "hf_secret")
    assert answer == HubAnswer(HubStanding.GATED, why="403 Access to model models/a/b is restricted (Bearer ***)")


@pytest.mark.parametrize("described", [b" " * (200 << 20), b"[" * 1_000_000, b"\xff\xfe", b"[]"])
def test_a_description_that_is_none_is_not_the_hubs_and_fills_no_memory(described: bytes) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.description = described
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert ask(server).standing is HubStanding.BLOCKED
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_slow_hub_is_waited_for_no_longer_than_the_limit() -> None:
    with serve_hub() as server:
        server.is_silent = True
        answer = ask(server, timeout_s=0.2)
    assert answer == HubAnswer(HubStanding.SILENT, why="no answer within 0.2 s")


def test_a_hub_that_cannot_be_reached_is_silent() -> None:
    with serve_hub() as server:
        pass
    assert ask(server).standing is HubStanding.SILENT


def test_many_questions_at_once_are_one_and_the_answer_is_kept_for_a_while() -> None:
    async def go(server: HubServer) -> int:
        clock = HandClock()
        hub = build_hub(server, clock=clock)
        await asyncio.gather(*(hub.ask(MODEL) for _ in range(50)))
        await hub.ask(MODEL)
        first = len(server.requests)
        clock.at += KEPT_S + 1
        await hub.ask(MODEL)
        assert len(server.requests) == 2 * first
        return first

    with serve_hub(models_a_b=Repo(FILES)) as server:
        assert asyncio.run(go(server)) == 2


def test_what_was_no_answer_is_asked_anew() -> None:
    async def go(server: HubServer) -> None:
        hub = build_hub(server)
        server.status = 503
        assert (await hub.ask(MODEL)).standing is HubStanding.DISTURBED
        server.status = None
        assert (await hub.ask(MODEL)).standing is HubStanding.READABLE

    with serve_hub(models_a_b=Repo(FILES)) as server:
        asyncio.run(go(server))
