"""The shelf: what is wanted is fetched once, one revision of a repository at a time, and jobs hear how far it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection

from server.tests.clocks import HandClock
from server.tests.ledger.builders import guard, open_ledger, wish_stop
from server.tests.web.support import ToldHub
from starforge.containers.storage import MARK_FILE
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import JobId, new_job_id
from starforge.contract.launch import PoolRequest
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.inputs import HubAnswer, HubInput, HubRef, HubStanding, JobInputs
from starforge_console.domain.waiting import describe_waiting
from starforge_console.inputs.fetch import Fetched, NeverThere, NotYet, Progress, Ready
from starforge_console.inputs.fetch_process import Wanted
from starforge_console.inputs.shelf import FIRST_RETRY_S, REFUSAL_KEPT_S, Shelf, ShelfParts
from starforge_console.ledger.accounts import add_user, find_user
from starforge_console.ledger.database import Database
from starforge_console.ledger.inputs import load_inputs
from starforge_console.ledger.jobs import NewJob, admit
from starforge_console.settings.console import HubSettings
from starforge_console.wakeups import Wakeups

FIRST, SECOND = "1" * 40, "2" * 40
MAIN = HubRef("model", "a/b", "main")


@dataclass
class Fetcher:
    """Fetches by hand: each fetch waits for its outcome."""

    begun: list[str] = field(default_factory=list)
    outcomes: "dict[str, asyncio.Future[Fetched]]" = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    tasks: "dict[str, asyncio.Task[None]]" = field(default_factory=dict)

    async def run(self, wanted: Wanted, stall_s: float, progress: Progress) -> Fetched:
        del stall_s
        self.begun.append(wanted.commit)
        task = asyncio.current_task()
        assert task is not None
        self.tasks[wanted.commit] = task
        self.progress[wanted.commit] = progress
        outcome: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self.outcomes[wanted.commit] = outcome
        answer = await outcome
        if isinstance(answer, Ready):
            Path(wanted.folder).mkdir()  # noqa: ASYNC240 - one folder
        return answer


@dataclass
class Site:
    ledger: Database
    clock: HandClock
    hub: ToldHub
    fetcher: Fetcher
    parts: ShelfParts
    shelf: Shelf

    async def submit(self, inputs: JobInputs) -> JobId:
        return await self.ledger.write(lambda c: _submit(c, inputs))

    async def end(self, commit: str, outcome: Fetched) -> None:
        """Let a fetch end, and let the pass that its end calls for follow."""
        self.fetcher.outcomes[commit].set_result(outcome)
        await asyncio.wait([self.fetcher.tasks[commit]])
        await self.run_once()

    async def run_once(self) -> float:
        """A pass, and the first steps of the fetches that it began."""
        delay_s = await self.shelf.run_once()
        for _ in range(1000):
            if set(self.shelf._fetching.values()) <= set(self.fetcher.tasks.values()):
                break
            await asyncio.sleep(0.01)
        return delay_s

    def note(self, *inputs: HubInput) -> str:
        missing = self.shelf.explain_missing({str(number): one for number, one in enumerate(inputs)})
        return describe_waiting(missing) if missing else ""


@asynccontextmanager
async def open_site(folder: Path, **settings: object) -> AsyncIterator[Site]:
    storage = folder / "storage"
    storage.mkdir()
    (storage / MARK_FILE).write_text("one")
    with open_ledger(folder) as ledger:
        clock, hub, fetcher, wakeups = HandClock(), ToldHub(), Fetcher(), Wakeups()
        wakeups.bind()
        parts = ShelfParts(
            ledger=ledger,
            storage=StorageLayout(storage),
            storage_id="one",
            hub=hub,
            settings=HubSettings.model_validate(settings),
            wakeups=wakeups,
            clock=clock,
            run=fetcher.run,
        )
        site = Site(ledger, clock, hub, fetcher, parts, Shelf(parts))
        try:
            yield site
        finally:
            await site.shelf.close()


def pinned(commit: str = FIRST, repo: str = "a/b") -> HubInput:
    return HubInput(HubRef("model", repo, "main"), commit)


def test_jobs_that_want_the_same_share_one_fetch_and_start_once_it_is_there(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            for _ in range(3):
                await site.submit({"model": pinned()})
            await site.run_once()
            await site.run_once()
            assert site.fetcher.begun == [FIRST]
            assert site.note(pinned()) == "hf://a/b@main is being fetched"
            await site.end(FIRST, Ready())
            assert site.note(pinned()) == ""
            assert site.fetcher.begun == [FIRST]

    asyncio.run(go())


def test_how_far_a_fetch_is_stands_in_the_note(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.submit({"model": pinned()})
            await site.run_once()
            site.fetcher.progress[FIRST](5 << 30, 8 << 30)
            assert site.note(pinned()) == "hf://a/b@main is being fetched: 5.0 GiB of 8.0 GiB"

    asyncio.run(go())


def test_two_revisions_of_one_repository_are_fetched_one_after_the_other(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.submit({"model": pinned(FIRST)})
            await site.submit({"model": pinned(SECOND)})
            await site.run_once()
            (first,) = site.fetcher.begun
            await site.end(first, Ready())
            assert sorted(site.fetcher.begun) == [FIRST, SECOND]

    asyncio.run(go())


def test_no_more_repositories_are_fetched_at_once_than_the_setting_says(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path, hf_fetches=2) as site:
            for name in "bcde":
                await site.submit({"model": pinned(name * 40 if name != "b" else FIRST, f"a/{name}")})
            await site.run_once()
            assert len(site.fetcher.begun) == 2

    asyncio.run(go())


def test_a_fetch_that_came_to_no_end_is_tried_again_later_and_the_note_says_why(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.submit({"model": pinned()})
            await site.run_once()
            await site.end(FIRST, NotYet("the line was cut"))
            assert "is not here yet: the line was cut; tried again in 5 s" in site.note(pinned())
            assert site.shelf.find_refusal(pinned()) == ""
            assert site.fetcher.begun == [FIRST]
            site.clock.at += FIRST_RETRY_S + 1
            await site.run_once()
            assert site.fetcher.begun == [FIRST, FIRST]

    asyncio.run(go())


def test_a_fetch_that_cannot_even_begin_is_tried_again_later(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            folder = site.parts.storage.hub_snapshot("model", "a/b", FIRST).parent
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.write_text("in its place")
            await site.submit({"model": pinned()})
            await site.run_once()
            assert "is not here yet: File exists" in site.note(pinned())
            assert "tried again in 5 s" in site.note(pinned())
            assert await site.run_once() > 1
            assert site.fetcher.begun == []
            folder.unlink()
            site.clock.at += FIRST_RETRY_S + 1
            await site.run_once()
            assert site.fetcher.begun == [FIRST]

    asyncio.run(go())


def test_what_can_never_be_had_lets_the_job_go_on_to_its_end_and_is_asked_anew_later(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.submit({"model": pinned()})
            await site.run_once()
            await site.end(FIRST, NeverThere("gated: 403"))
            assert site.note(pinned()) == ""
            assert site.shelf.find_refusal(pinned()) == "hf://a/b@main: gated: 403"
            site.clock.at += REFUSAL_KEPT_S + 1
            await site.run_once()
            assert site.fetcher.begun == [FIRST, FIRST]
            assert site.shelf.find_refusal(pinned()) == ""

    asyncio.run(go())


def test_a_revision_that_nobody_could_ask_for_is_pinned_once_the_hub_answers(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit({"model": HubInput(MAIN, None)})
            site.hub.answers[MAIN] = HubAnswer(HubStanding.SILENT, why="no route")
            await site.run_once()
            assert "waits for an answer of https://hub.test: no route" in site.note(HubInput(MAIN, None))
            site.hub.answers[MAIN] = HubAnswer(HubStanding.READABLE, commit=FIRST)
            site.clock.at += FIRST_RETRY_S + 1
            await site.run_once()
            assert await site.ledger.read(lambda c: load_inputs(c, job)) == {"model": pinned()}
            await site.run_once()
            assert site.fetcher.begun == [FIRST]

    asyncio.run(go())


def test_a_new_process_goes_on_and_fetches_nothing_that_is_here(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            await site.submit({"model": pinned(FIRST)})
            await site.submit({"model": pinned(SECOND, "a/c")})
            await site.run_once()
            await site.end(FIRST, Ready())
            await site.shelf.close()
            site.shelf = Shelf(site.parts)
            before = len(site.fetcher.begun)
            await site.run_once()
            assert site.fetcher.begun[before:] == [SECOND]
            assert site.note(pinned(FIRST)) == ""

    asyncio.run(go())


def test_nothing_is_written_below_the_mount_point_of_a_share_that_is_away(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            (site.parts.storage.root / MARK_FILE).unlink()
            await site.submit({"model": pinned()})
            await site.run_once()
            assert site.fetcher.begun == []
            assert "storage not mounted" in site.note(pinned())
            assert list(site.parts.storage.root.iterdir()) == []

    asyncio.run(go())


def test_what_no_job_waits_for_is_not_fetched(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            job = await site.submit({"model": pinned()})
            await site.ledger.write(lambda c: wish_stop(c, job, None, guard()))
            await site.run_once()
            assert site.fetcher.begun == []

    asyncio.run(go())


def _submit(connection: Connection, inputs: JobInputs) -> JobId:
    job = NewJob(
        id=new_job_id(),
        user_id=find_user(connection, "ada") or add_user(connection, "ada", "member", 1.0),
        name="iris",
        project="demo",
        spec="{}",
        spec_digest=digest_bytes(b"{}"),
        admission="{}",
        fleet=None,
        priority=0,
        pools=(PoolRequest(name="main", nodes=1, gpus_per_node=0),),
        gpus=0,
        grace_s=30.0,
        max_runtime_s=None,
        retries=0,
        inputs=inputs,
    )
    return admit(connection, job, None, 1.0)
