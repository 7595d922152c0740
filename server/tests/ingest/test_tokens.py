from pathlib import Path

import pytest

from server.tests.databases import read_stored
from server.tests.ingest.builders import Site, event_line, guard, open_site, run
from server.tests.ledger.builders import wish_stop
from starforge_console.domain.tokens import hash_token
from starforge_console.errors import StreamClosed, TokenRefused
from starforge_console.ingest.tokens import REMEMBERED_S, IngestTokens
from starforge_console.ledger.endings import end_token
from starforge_console.ledger.reports import ReportingAttempt

TOKEN = "sfa_of-this-attempt"  # noqa: S105 - a made-up one


async def _attempt(site: Site) -> ReportingAttempt:
    return await site.start_attempt(hash_token(TOKEN))


def test_a_token_stands_for_its_attempt_and_tells_its_wish(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _attempt(site)
            tokens = IngestTokens(site.stores.ledger, site.clock)
            grant = await tokens.load_grant(TOKEN)
            assert grant.attempt == attempt
            wish = tokens.wish_of(grant)
            assert (wish.desired, wish.grace_s) == ("run", None)

    run(_scenario())


def test_a_stop_is_told_within_a_second_with_the_time_that_is_left(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _attempt(site)
            tokens = IngestTokens(site.stores.ledger, site.clock)
            await tokens.load_grant(TOKEN)
            await site.stores.ledger.write(lambda c: wish_stop(c, attempt.job, 40.0, guard(site.clock.at)))
            site.clock.at += 1
            wish = tokens.wish_of(await tokens.load_grant(TOKEN))
            assert (wish.desired, wish.grace_s) == ("stop", 39.0)
            site.clock.at += 100
            assert tokens.wish_of(await tokens.load_grant(TOKEN)).grace_s == 0.0

    run(_scenario())


def test_a_clock_that_is_set_back_leaves_a_stop_no_more_time_than_it_was_given(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _attempt(site)
            tokens = IngestTokens(site.stores.ledger, site.clock)
            await site.stores.ledger.write(lambda c: wish_stop(c, attempt.job, 40.0, guard(site.clock.at)))
            site.clock.at -= 7200
            assert tokens.wish_of(await tokens.load_grant(TOKEN)).grace_s == 40.0
            await site.stores.ledger.write(lambda c: wish_stop(c, attempt.job, 600.0, guard(site.clock.at)))
            site.clock.at += 2
            assert tokens.wish_of(await tokens.load_grant(TOKEN)).grace_s == 40.0

    run(_scenario())


def test_an_unknown_token_is_refused_and_an_ended_one_closed(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _attempt(site)
            tokens = IngestTokens(site.stores.ledger, site.clock)
            with pytest.raises(TokenRefused):
                await tokens.load_grant("sfa_of-nobody")
            await tokens.load_grant(TOKEN)
            await site.stores.ledger.write(lambda c: end_token(c, attempt.id, site.clock.at))
            await tokens.load_grant(TOKEN)  # still believed, for less than a second
            site.clock.at += REMEMBERED_S
            with pytest.raises(StreamClosed):
                await tokens.load_grant(TOKEN)

    run(_scenario())


def test_an_ended_token_works_for_a_second_at_most(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _attempt(site)
            tokens = IngestTokens(site.stores.ledger, site.clock)
            await tokens.load_grant(TOKEN)
            await site.stores.ledger.write(lambda c: end_token(c, attempt.id, site.clock.at))
            site.clock.at += 1
            with pytest.raises(StreamClosed):
                await tokens.load_grant(TOKEN)

    run(_scenario())


def test_no_token_is_kept_or_shown(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await _attempt(site)
            tokens = IngestTokens(site.stores.ledger, site.clock)
            await tokens.load_grant(TOKEN)
            await site.receiver.take(attempt, "events", 0, event_line("started"))
            assert TOKEN not in repr(vars(tokens))

    run(_scenario())
    assert TOKEN.encode() not in read_stored(tmp_path)
