"""What a fleet holds and no ledger knows: what has ended goes, what runs stays, what is known stays."""

from pathlib import Path

from sqlalchemy import update

from server.tests.scheduler.support import open_site, run
from starforge.contract.observation import NoSignal
from starforge_console.executors.scripting import Script
from starforge_console.ledger.tables import attempts
from starforge_console.scheduler.sweep import Sweep


def test_only_what_has_ended_and_is_unknown_is_removed(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            (_, forgotten), (_, known) = await site.running(), await site.running()
            sweep = Sweep(site.new_deps())
            await site.ledger.write(
                lambda c: c.execute(update(attempts).where(attempts.c.id == forgotten).values(cleaned_at=1.0))
            )
            await sweep.run_once()
            assert site.fleet.calls("cleanup") == [], "both still run"
            for attempt in (forgotten, known):
                site.fleet.finish(attempt, 0)
            await sweep.run_once()
            assert site.fleet.calls("cleanup") == [forgotten]

    run(go())


def test_what_came_to_be_after_its_attempt_was_given_up_and_never_started_keeps_no_gpus(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, script=Script(prepare_steps=None)) as site:
            jobs = [await site.submit(), await site.submit()]
            await site.dequeue()
            late, known = [await site.attempt(job) for job in jobs]
            await site.ledger.write(
                lambda c: c.execute(update(attempts).where(attempts.c.id == late).values(cleaned_at=1.0))
            )
            await Sweep(site.new_deps()).run_once()
            assert site.fleet.calls("cleanup") == [late]
            held = await site.fleet.inventory()
            assert not isinstance(held, NoSignal)
            assert set(held) == {known}

    run(go())


def test_a_fleet_that_does_not_answer_keeps_everything(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            _, forgotten = await site.running()
            await site.ledger.write(lambda c: c.execute(update(attempts).values(cleaned_at=1.0)))
            site.fleet.finish(forgotten, 0)
            site.fleet.make_unreachable()
            sweep = Sweep(site.new_deps())
            assert await sweep.run_once() > 0
            assert site.fleet.calls("cleanup") == []

    run(go())
