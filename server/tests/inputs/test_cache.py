"""The cache of fetched models as the collector sees it: what no job needs goes, and what one asked for stays."""

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from server.tests.inputs.test_shelf import FIRST, SECOND, Site, open_site
from server.tests.ledger.builders import apply, take
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge.errors import NotFound
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.hub_cache import ABANDONED_S, RESUMABLE_S
from starforge_console.domain.inputs import HubInput, HubRef, JobInputs
from starforge_console.domain.retention import Kind, Removal
from starforge_console.inputs.cache import HubCache

NOW = 1e9
MODEL: JobInputs = {"model": HubInput(HubRef("model", "a/b", "main"), FIRST)}


def keep(folder: Path, commit: str, repo: str = "a/b", used_at: float = NOW - 1000) -> Path:
    snapshot = StorageLayout(folder / "storage").hub_snapshot("model", repo, commit)
    (snapshot / "sub").mkdir(parents=True)
    (snapshot / "sub" / "weights").write_bytes(b"w" * 100)
    os.utime(snapshot, (used_at, used_at))
    return snapshot


def cache(site: Site, limit_bytes: int | None = 0) -> HubCache:
    return HubCache(site.parts.storage, site.ledger, limit_bytes)


async def names(site: Site, limit_bytes: int | None = 0, now: float = NOW) -> list[str]:
    return [one.name for one in await cache(site, limit_bytes).list_removals(now)]


async def end(site: Site, job: JobId, reason: Reason, at: float) -> None:
    await site.ledger.write(lambda c: take(c, job))
    await site.ledger.write(lambda c: apply(c, job, Reason.LAUNCHED, Reason.STARTED, reason, now=at))


def test_a_snapshot_that_no_job_needs_goes_with_its_folder(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            old, new = keep(tmp_path, FIRST, used_at=NOW - 2000), keep(tmp_path, SECOND, "c/d")
            (going,) = await cache(site, 150).list_removals(NOW)
            assert (going.kind, going.name, going.bytes) == (Kind.MODEL, f"model a/b@{FIRST}", 100)
            for _ in range(2):  # it can be repeated
                await cache(site, 150).remove(going)
            assert not old.parent.exists()
            assert (new / "sub" / "weights").is_file()

    asyncio.run(go())


def test_what_a_job_reads_stays_until_it_has_succeeded(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            keep(tmp_path, FIRST)
            job = await site.submit(MODEL)
            assert await names(site) == []
            await end(site, job, Reason.EXITED_ZERO, NOW - 1)
            assert await names(site) == [f"model a/b@{FIRST}"]

    asyncio.run(go())


def test_what_a_failed_job_read_stays_while_it_may_be_resumed(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            keep(tmp_path, FIRST)
            await end(site, await site.submit(MODEL), Reason.EXITED_NONZERO, NOW - 1)
            assert await names(site) == []
            assert await names(site, now=NOW + RESUMABLE_S) == [f"model a/b@{FIRST}"]

    asyncio.run(go())


def test_what_a_job_asks_for_while_it_goes_is_put_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            folder = keep(tmp_path, FIRST)
            (going,) = await cache(site).list_removals(NOW)
            await site.submit(MODEL)
            with pytest.raises(OSError, match="asked for it meanwhile"):
                await cache(site).remove(going)
            assert (folder / "sub" / "weights").is_file()

    asyncio.run(go())


def begin_fetch(folder: Path, ago_s: float) -> Path:
    snapshot = StorageLayout(folder / "storage").hub_snapshot("model", "a/b", FIRST)
    unfinished = snapshot.with_name(f".{FIRST}.fetching")
    unfinished.mkdir(parents=True)
    (unfinished / "lock").write_bytes(b"")
    os.utime(unfinished / "lock", (NOW - ago_s, NOW - ago_s))
    return unfinished


def test_a_fetch_that_was_given_up_goes_and_one_that_is_under_way_does_not(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            unfinished = begin_fetch(tmp_path, ABANDONED_S + 1)
            (going,) = await cache(site, None).list_removals(NOW)
            lock = os.open(unfinished / "lock", os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(BlockingIOError):
                await cache(site).remove(going)
            os.close(lock)
            await cache(site).remove(going)
            assert not unfinished.exists()

    asyncio.run(go())


def test_what_a_removal_left_when_the_console_was_killed_goes_too(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            folder = keep(tmp_path, FIRST, used_at=NOW)
            aside = folder.rename(folder.with_name(f".{FIRST}.removing-{'0' * 16}"))
            keep(tmp_path, FIRST)  # it was fetched again
            os.utime(aside / "sub" / "weights", (1.0, 1.0))
            (going,) = await cache(site, None).list_removals(NOW)
            await cache(site).remove(going)
            assert not aside.exists()
            assert folder.exists()

    asyncio.run(go())


def test_what_else_lies_there_is_not_touched(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_site(tmp_path) as site:
            repo = keep(tmp_path, FIRST).parent
            (repo / "notes.txt").write_text("mine")
            (repo / "main").mkdir()
            (repo / SECOND).symlink_to("/etc")
            (repo.parent / "linked").symlink_to(repo)
            assert await names(site) == [f"model a/b@{FIRST}"]
            with pytest.raises(NotFound):
                await cache(site).remove(Removal(kind=Kind.MODEL, name="model ../../etc@x", why=""))

    asyncio.run(go())
