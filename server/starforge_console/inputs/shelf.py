"""The shelf of fetched models and datasets: what queued jobs want, what of it is here, and why the rest is not.

One pass looks at what is wanted, asks for commits that nobody could tell at admission, and begins to fetch what is not
here: one snapshot of a repository at a time. What is under way is known to this process alone; after a restart the next
pass begins it again, and goes on with the files that had arrived.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.ids import JobId
from starforge.said.sentence import say
from starforge.wording import describe_bytes
from starforge_console.assembly.layout import StorageLayout
from starforge_console.clock import Clock
from starforge_console.domain.inputs import UNANSWERED, HubInput, HubSource, HubStanding, JobInputs
from starforge_console.domain.waiting import WaitReason
from starforge_console.inputs.fetch import Fetched, NeverThere, NotYet, Progress, Ready, fetch
from starforge_console.inputs.fetch_process import Wanted
from starforge_console.ledger.database import Database
from starforge_console.ledger.inputs import list_wanted, pin_commit
from starforge_console.settings.console import HubSettings
from starforge_console.wakeups import INPUTS, QUEUE, Wakeups

FIRST_RETRY_S: Final = 5.0
LONGEST_RETRY_S: Final = 300.0
REFUSAL_KEPT_S: Final = 60.0
"""A refusal is asked anew after this long: somebody may have been let in meanwhile."""
TOLD_EVERY_S: Final = 3.0
_IDLE_S: Final = 60.0

_log = structlog.get_logger("inputs")


@dataclass(slots=True)
class _Standing:
    """How it is with one input. `refused` says why it cannot be had; before `again_at` nothing is tried."""

    note: str = say("input.to_fetch")
    refused: str = ""
    tries: int = 0
    again_at: float = 0.0
    is_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfParts:
    """What the shelf is built from. `run` fetches one snapshot."""

    ledger: Database
    storage: StorageLayout
    storage_id: str
    hub: HubSource
    settings: HubSettings
    wakeups: Wakeups
    clock: Clock
    run: Callable[[Wanted, float, Progress], Awaitable[Fetched]] = fetch


class Shelf:
    """Models and datasets of one console."""

    def __init__(self, parts: ShelfParts) -> None:
        self._parts = parts
        self._mounted = StorageCheck(StorageMark(root=parts.storage.root, content=parts.storage_id))
        self._standings: dict[HubInput, _Standing] = {}
        self._fetching: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._told_at = 0.0

    def explain_missing(self, inputs: JobInputs) -> Sequence[WaitReason]:
        """Why a job cannot start yet for want of these; empty when all are here, or one of them can never be."""
        wanted = [one for one in inputs.values() if isinstance(one, HubInput)]
        if any(self.find_refusal(one) for one in wanted):
            return ()
        standings = [(one, self._standings.get(one) or _Standing()) for one in wanted]
        return [
            WaitReason(say("input.is", input=str(one.ref), how=standing.note))
            for one, standing in standings
            if not standing.is_ready
        ]

    def find_refusal(self, one: HubInput) -> str:
        """Why this can never be had; empty where that is not known."""
        standing = self._standings.get(one)
        return standing.refused if standing is not None else ""

    async def run_once(self) -> float:
        """One pass; gives the seconds until the next one is due."""
        jobs = await self._parts.ledger.read(list_wanted)
        wanted = {one for inputs in jobs.values() for one in inputs.values() if isinstance(one, HubInput)}
        self._standings = {one: self._standings.get(one) or _Standing() for one in wanted}
        trouble = await asyncio.to_thread(self._look, [one for one in wanted if one.commit is not None])
        now = self._parts.clock.monotonic()
        for one, standing in self._standings.items():
            if standing.is_ready or standing.again_at > now:
                continue
            if trouble:
                self._put_off(standing, say("input.storage", why=trouble))
            elif one.commit is None:
                await self._resolve(one, standing, jobs)
            else:
                self._begin(one, standing)
        self._parts.wakeups.notify(QUEUE)
        due = [one.again_at - now for one in self._standings.values() if one.again_at > now]
        return max(0.05, min([_IDLE_S, *due]))

    async def close(self) -> None:
        """End what is under way; what has arrived is kept."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look(self, wanted: Sequence[HubInput]) -> str:
        """See which snapshots are here; gives what is wrong with the storage, if anything."""
        trouble = self._mounted.find_trouble()
        for one in wanted:
            standing = self._standings[one]
            standing.is_ready = not trouble and self._folder(one).is_dir()
            if standing.is_ready:
                standing.refused = ""
        return trouble

    def _folder(self, one: HubInput) -> Path:
        return self._parts.storage.hub_snapshot(one.ref.kind, one.ref.repo, one.commit or "")

    async def _resolve(self, one: HubInput, standing: _Standing, jobs: Mapping[JobId, JobInputs]) -> None:
        answer = await self._parts.hub.ask(one.ref)
        commit = answer.commit
        if answer.standing is HubStanding.READABLE and commit is not None:
            naming, now = [job for job, inputs in jobs.items() if one in inputs.values()], self._parts.clock.now()
            await self._parts.ledger.write(lambda c: pin_commit(c, naming, one.ref, commit, now))
            self._parts.wakeups.notify(INPUTS)
        elif answer.standing in UNANSWERED:
            self._put_off(standing, say("input.unanswered", endpoint=self._parts.hub.endpoint, why=answer.why))
        else:
            words = answer.standing.name.lower().replace("_", " ")
            self._refuse(one, standing, f"{words}: {answer.why}")

    def _begin(self, one: HubInput, standing: _Standing) -> None:
        repo = (one.ref.kind, one.ref.repo)
        if repo in self._fetching:
            return
        if len(self._fetching) >= self._parts.settings.hf_fetches:
            standing.note = say("input.after_others", n=len(self._fetching))
            return
        standing.note, standing.refused = say("input.fetching"), ""
        task = asyncio.create_task(self._fetch(one, standing), name=f"fetch {one.ref}")
        self._fetching[repo] = task
        task.add_done_callback(lambda _: self._ended(repo))

    def _ended(self, repo: tuple[str, str]) -> None:
        self._fetching.pop(repo, None)
        self._parts.wakeups.notify(INPUTS, QUEUE)

    async def _fetch(self, one: HubInput, standing: _Standing) -> None:
        folder = self._folder(one)
        token = self._parts.settings.token
        wanted = Wanted(
            endpoint=self._parts.hub.endpoint,
            kind=one.ref.kind,
            repo=one.ref.repo,
            commit=one.commit or "",
            folder=str(folder),
            token=None if token is None else token.reveal(),
        )
        _log.info("fetching", input=str(one.ref), commit=one.commit)
        try:
            await asyncio.to_thread(folder.parent.mkdir, parents=True, exist_ok=True)
            outcome = await self._parts.run(
                wanted, self._parts.settings.hf_stall_s, lambda done, of: self._tell(standing, done, of)
            )
        except OSError as error:
            outcome = NotYet(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        match outcome:
            case Ready():
                standing.is_ready, standing.tries = True, 0
                _log.info("fetched", input=str(one.ref), commit=one.commit)
            case NeverThere(why=why):
                self._refuse(one, standing, why)
            case NotYet(why=why):
                _log.warning("a fetch did not come to its end", input=str(one.ref), reason=why)
                self._put_off(standing, say("input.not_yet", why=why))

    def _tell(self, standing: _Standing, done: int, of: int) -> None:
        standing.tries = 0
        standing.note = say("input.fetching_bytes", done=describe_bytes(done), total=describe_bytes(of))
        now = self._parts.clock.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            self._parts.wakeups.notify(QUEUE)

    def _put_off(self, standing: _Standing, note: str) -> None:
        delay_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**standing.tries)
        standing.tries += 1
        standing.note = say("input.again", how=note, s=f"{delay_s:g}")
        standing.again_at = self._parts.clock.monotonic() + delay_s

    def _refuse(self, one: HubInput, standing: _Standing, why: str) -> None:
        _log.warning("an input cannot be had", input=str(one.ref), reason=why)
        standing.refused = f"{one.ref}: {why}"
        standing.again_at = self._parts.clock.monotonic() + REFUSAL_KEPT_S
