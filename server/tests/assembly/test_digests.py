"""The ledger keeps what an attempt was assembled with."""

import asyncio
from pathlib import Path

import pytest

from server.tests.assembly.support import ATTEMPT, Yard, in_flight, open_yard
from server.tests.ledger.builders import guard, queued
from starforge.contract.canonical import digest_bytes
from starforge_console.ledger.queue import NewAttempt, dequeue
from starforge_console.ledger.views import AttemptRecord, list_attempts


def test_capsule_and_runner_are_recorded_when_the_attempt_is_assembled(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_yard(tmp_path) as yard:
            await begin(yard)
            assert await load(yard) == (None, None)
            request = await yard.assembler.prepare(in_flight())
            runner = "sha256:" + yard.settings.runner.name
            assert await load(yard) == (request.capsule_digest, runner)

    asyncio.run(go())


def test_a_capsule_that_was_written_before_keeps_the_runner_of_then(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_yard(tmp_path) as yard:
            await begin(yard)
            await yard.assembler.prepare(in_flight())
            before = await load(yard)
            newer = yard.settings.runner.with_name("f" * 64)
            newer.write_bytes(b"another runner")
            yard.change(runner=newer)
            await yard.assembler.prepare(in_flight())
            assert await load(yard) == before
            found = (yard.layout.capsule / "runner.pex").read_bytes()
            assert before[1] == digest_bytes(found)

    asyncio.run(go())


@pytest.mark.parametrize("is_bare", [True, False])
def test_whether_it_runs_without_a_container_is_recorded(tmp_path: Path, *, is_bare: bool) -> None:
    async def go() -> None:
        async with open_yard(tmp_path) as yard:
            yard.change(bare_kinds=frozenset({"local" if is_bare else "slurm"}))
            await begin(yard)
            assert (await find(yard)).is_bare is None
            await yard.assembler.prepare(in_flight())
            assert (await find(yard)).is_bare is is_bare

    asyncio.run(go())


async def begin(yard: Yard) -> None:
    job = in_flight()
    new = NewAttempt(
        id=ATTEMPT,
        number=3,
        target=job.attempt.target,
        token_hash=ATTEMPT,
        token_expires_at=1e6,
        lease="me",
        lease_until=1e6,
    )
    assert await yard.ledger.write(lambda c: dequeue(c, queued(c, job.id), new, guard())) is not None


async def load(yard: Yard) -> tuple[str | None, str | None]:
    attempt = await find(yard)
    return attempt.capsule_digest, attempt.runner_digest


async def find(yard: Yard) -> AttemptRecord:
    return (await yard.ledger.read(lambda c: list_attempts(c, in_flight().id)))[0]
