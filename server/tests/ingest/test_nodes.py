"""Attempts over several nodes: what each node prints is a log of its own, and none of it is lost."""

import asyncio
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt
from server.tests.ingest.builders import Site, ended, open_site, run, write_exit
from server.tests.ingest.http import TOKEN, serve
from server.tests.ledger.builders import apply
from starforge.contract import capsule
from starforge.contract.states import Reason
from starforge.errors import NotFound
from starforge_console.ingest.backfill import Backfill
from starforge_console.ingest.finalise import Finaliser
from starforge_console.ingest.logs import Logs
from starforge_console.ingest.presence import Presence
from starforge_console.ledger.endings import list_unclean
from starforge_console.ledger.reports import ReportingAttempt, find_grant, list_reporting

PRINT = "for i in $(seq 3000); do echo node $FORGE_NODE_RANK line $i; done"
FIRST, SECOND, THIRD = b"rank 0: step 1\n" * 3, b"rank 8: step 1\nrank 8: CUDA error\n", b"x" * (3 << 20)


def _leave(site: Site, attempt: ReportingAttempt, node: int, content: bytes) -> None:
    folder = site.storage.attempt(attempt.id).root / ("spool" if node == 0 else f"node-{node}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.bin").write_bytes(content)


def test_the_logs_of_all_nodes_are_received_and_read_each_by_itself(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt(nodes=3)
            take = site.receiver.take
            for stream, content in (("log", FIRST), ("log-1", SECOND), ("log", b"more"), ("log-1", b"last")):
                mark = await site.receiver.find_mark(attempt, stream)
                await take(attempt, stream, mark.received_to, content)
            logs = Logs(site.stores)
            assert (await logs.read_log(attempt.id, 0, 1000)).content == FIRST + b"more"
            assert (await logs.of_node(1).read_log(attempt.id, 0, 1000)).content == SECOND + b"last"
            assert await logs.of_node(1).number_of(attempt.id, len(SECOND)) == 3
            assert (await logs.of_node(2).read_log(attempt.id, 0, 1000)).content == b""
            for stranger in ("log-3", "log-0", "log-01", "metrics-1", "logs"):
                with pytest.raises(NotFound):
                    await take(attempt, stranger, 0, b"bytes\n")

    run(_scenario())


def test_an_attempt_on_one_node_has_no_other_log(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt()
            with pytest.raises(NotFound):
                await site.receiver.take(attempt, "log-1", 0, b"bytes")

    run(_scenario())


def test_the_ledger_says_over_how_many_nodes_an_attempt_reports(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            await site.start_attempt("hash", nodes=2)
            grant = await site.stores.ledger.read(lambda c: find_grant(c, "hash"))
            assert grant is not None
            assert grant.attempt.nodes == 2
            assert [one.nodes for one in await site.stores.ledger.read(list_reporting)] == [2]
            await site.stores.ledger.write(lambda c: apply(c, grant.attempt.job, Reason.EXITED_NONZERO))
            assert [one.nodes for one in await site.stores.ledger.read(list_unclean)] == [2]

    run(_scenario())


def test_what_nodes_left_in_their_own_spools_is_read_at_the_end(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt(nodes=3)
            await site.receiver.take(attempt, "log-1", 0, SECOND[:5])
            for node, content in enumerate((FIRST, SECOND, THIRD)):
                _leave(site, attempt, node, content)
            write_exit(site, attempt, log=len(FIRST))
            finaliser = Finaliser(site.receiver, site.stores, site.storage, site.clock, {})
            _, produced = await finaliser.finalise(ended(attempt))
            assert produced == len(FIRST), "the attempt's own log is that of the node which leads"
            found = [await site.log_bytes(attempt, stream) for stream in ("log", "log-1", "log-2")]
            assert found == [FIRST, SECOND, THIRD]
            read = await Logs(site.stores).of_node(2).read_log(attempt.id, len(THIRD), 10)
            assert (read.received_to, read.ended) == (len(THIRD), True)
            await finaliser.finalise(ended(attempt))
            assert await site.log_bytes(attempt, "log-1") == SECOND

    run(_scenario())


def test_the_spools_of_silent_nodes_are_read_while_they_run(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with open_site(tmp_path) as site:
            attempt = await site.start_attempt(nodes=2)
            _leave(site, attempt, 0, FIRST)
            _leave(site, attempt, 1, SECOND)
            presence = Presence(site.clock)
            backfill = Backfill(site.receiver, site.stores, site.storage, presence)
            await backfill.run_once()
            site.clock.at += 60
            await backfill.run_once()
            assert await site.log_bytes(attempt, "log-1") == SECOND

    run(_scenario())


def test_of_two_real_runners_nothing_is_lost_and_each_line_is_of_its_node(tmp_path: Path) -> None:
    async def _scenario() -> None:
        async with serve(tmp_path, nodes=2) as served:
            site, attempt = served.site, served.attempt
            runners = Attempt(site.storage.attempt(attempt.id).root)
            try:
                await asyncio.to_thread(_run_both, runners, attempt, served.url)
                await _check_both(site, attempt)
                finaliser = Finaliser(site.receiver, site.stores, site.storage, site.clock, {})
                await finaliser.finalise(ended(attempt))
                await _check_both(site, attempt)
            finally:
                runners.close()

    run(_scenario())


def _run_both(runners: Attempt, attempt: ReportingAttempt, url: str) -> None:
    runners.secret("ingest-token", TOKEN)
    runners.prepare("bash", "-c", PRINT, node_count=2, attempt=attempt.id, ingest=capsule.Ingest(url))
    runners.environment = {capsule.ENV_ATTEMPT: attempt.id, capsule.ENV_NODE_RANK: "1"}
    follower = runners.start()
    runners.environment |= {capsule.ENV_NODE_RANK: "0"}
    assert runners.run() == 0, runners.stderr
    follower.communicate(timeout=30)
    assert follower.returncode == 0


async def _check_both(site: Site, attempt: ReportingAttempt) -> None:
    for node, stream in enumerate(("log", "log-1")):
        lines = (await site.log_bytes(attempt, stream)).decode().splitlines()
        assert lines == [f"node {node} line {number}" for number in range(1, 3001)]
