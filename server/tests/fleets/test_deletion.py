"""Fleets are deleted when nothing of them is left, and only then."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from server.tests.fleets.machines import Machine
from server.tests.fleets.yard import Yard, open_yard
from server.tests.ledger.builders import guard, queued, submit
from starforge.contract.executor import Target
from starforge.contract.ids import new_attempt_id
from starforge.contract.registration import Fenced
from starforge.errors import Conflict, NotFound, Refused
from starforge_console.domain.job import JobInFlight
from starforge_console.fleets.served import build_fleet
from starforge_console.ledger.endings import note_finalised
from starforge_console.ledger.fleets import list_fleets
from starforge_console.ledger.queue import NewAttempt, dequeue
from starforge_console.ledger.views import list_attempts

Test = Callable[[Yard], Awaitable[None]]


def run(root: Path, test: Test) -> None:
    async def _run() -> None:
        async with open_yard(root) as yard:
            await test(yard)

    asyncio.run(_run())


async def read_all(yard: Yard, job: JobInFlight) -> None:
    """What the job's attempt left in the storage is read."""
    await yard.ledger.write(lambda c: note_finalised(c, job.attempt.id, 1.0, {}, 0))


def test_an_empty_fleet_is_gone_at_once_and_after_a_restart_and_its_name_is_free(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        token = await yard.mint()
        await yard.administration.delete_fleet("gpu")
        assert (list(yard.fleets), dict(yard.fleets.fleets)) == ([], {})
        with pytest.raises(NotFound):
            await yard.administration.delete_fleet("gpu")
        await yard.restart()
        assert list(yard.fleets) == []
        await yard.fleets.create(build_fleet("gpu", "node", "host", "1000:1000"))
        (made,) = await yard.ledger.read(list_fleets)
        assert (made.name, made.network.value, made.user) == ("gpu", "host", "1000:1000")
        with pytest.raises(Refused, match="revoked"):
            await Machine().join(yard.registration, token)
        with pytest.raises(Conflict, match="already"):
            await yard.fleets.create(build_fleet("gpu", "node"))

    run(tmp_path, test)


def test_nothing_is_deleted_while_jobs_and_nodes_are_left_and_it_says_how_many(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.add_machine()
        await yard.add_machine(Machine(hostname="gpu8"))
        placed = [await yard.place("gpu7"), await yard.place("gpu7")]
        with pytest.raises(Conflict, match="2 jobs, 2 nodes"):
            await yard.administration.delete_fleet("gpu")
        assert list(yard.fleets) == ["gpu"]
        await yard.administration.mark_lost("gpu7", "gpu7")
        with pytest.raises(Conflict, match="2 nodes, 2 ended attempts"):
            await yard.administration.delete_fleet("gpu")
        for job in placed:
            await read_all(yard, job)
        for node in ("gpu7", "gpu8"):
            await yard.administration.remove(node)
        # What failed as node_lost is to be tried again, in any fleet.
        await yard.administration.delete_fleet("gpu")
        assert list(yard.fleets) == []

    run(tmp_path, test)


def test_a_job_that_waits_for_the_fleet_by_name_keeps_it(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        await yard.ledger.write(lambda c: submit(c, fleet="gpu"))
        with pytest.raises(Conflict, match="1 job"):
            await yard.administration.delete_fleet("gpu")

    run(tmp_path, test)


def test_a_removed_machine_is_known_after_its_fleet_and_the_history_of_its_jobs_is_readable(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        job = await yard.place("gpu7")
        await yard.administration.mark_lost("gpu7", "gpu7")
        await read_all(yard, job)
        await yard.administration.remove("gpu7")
        await yard.administration.delete_fleet("gpu")
        attempts = await yard.ledger.read(lambda c: list_attempts(c, job.id))
        assert [(one.fleet, one.node) for one in attempts] == [("gpu", "gpu7")]
        await yard.fleets.create(build_fleet("gpu", "node"))
        assert yard.directory.rows("gpu") == []
        # It still hears what to remove.
        assert isinstance(await machine.beat(yard.registration), Fenced)

    run(tmp_path, test)


def test_nothing_is_placed_in_a_fleet_or_admitted_to_it_once_it_is_deleted(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        job_id = await yard.ledger.write(submit)
        await yard.administration.delete_fleet("gpu")
        attempt = new_attempt_id(job_id, 1)
        new = NewAttempt(
            id=attempt,
            number=1,
            target=Target(fleet="gpu", node="n1", name=f"sf-{attempt}"),
            token_hash=attempt,
            token_expires_at=yard.clock.at + 1e6,
            lease="me",
            lease_until=yard.clock.at + 300.0,
        )
        taken = guard(yard.clock.at, "me")
        assert await yard.ledger.write(lambda c: dequeue(c, queued(c, job_id), new, taken)) is None
        with pytest.raises(Conflict, match="deleted just now"):
            await yard.ledger.write(lambda c: submit(c, fleet="gpu"))

    run(tmp_path, test)


def test_a_fleet_whose_machines_the_settings_name_stays(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        yard.directory.serve_legacy("gpu", ["10.0.0.9:7070"])
        with pytest.raises(Conflict, match="FORGE_NODE_ADDRESSES"):
            await yard.administration.delete_fleet("gpu")

    run(tmp_path, test)
