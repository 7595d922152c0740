"""What holds for a fleet whatever breaks: one picture of engines, ledger and scripts, and what is wrong with it."""

import contextlib
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.support.farm import Farm
from starforge.containers.labels import Claim, State, find_claims
from starforge.errors import StarForgeError

LIVING: Final = frozenset({State.RUNNING, State.PAUSED, State.RESTARTING})
_HELD: Final = LIVING | {State.CREATED}
_SAMPLE_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job as the ledger has it. `attempt` is the newest one."""

    state: str
    note: str
    attempt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One moment.

    Attributes:
        install: Whose containers are ours.
        containers: What each engine lists, by the machine's name.
        submitted: Every job that was ever admitted here.
        jobs: What the ledger has of them.
        attempts: Those of the ledger that are not cleaned up.
        starts: How often each attempt's script ran.
        shown: Running containers that the fleet's page shows as unknown to the ledger.

    """

    install: str
    containers: Mapping[str, Sequence[Claim]]
    submitted: Sequence[str]
    jobs: Mapping[str, JobLine]
    attempts: frozenset[str]
    starts: Mapping[str, int]
    shown: frozenset[str] = frozenset()


def find_faults(picture: Picture) -> list[str]:
    """What is wrong with the picture of a fleet that has come to rest. Pure."""
    return [
        *find_broken(picture),
        *_find_strangers(picture),
        *_find_disagreements(picture),
        *_find_silent(picture),
    ]


def find_broken(picture: Picture) -> list[str]:
    """What must not be even for a moment. Pure."""
    twice = [f"attempt {attempt} ran {count} times" for attempt, count in picture.starts.items() if count > 1]
    lost = [f"job {job} is lost: the ledger does not know it" for job in picture.submitted if job not in picture.jobs]
    return [*find_shared_gpus(picture.containers), *twice, *lost]


def find_shared_gpus(containers: Mapping[str, Sequence[Claim]]) -> list[str]:
    """GPUs that several living containers hold. Pure."""
    holders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for machine, claims in containers.items():
        for claim in claims:
            for gpu in claim.gpus if claim.state in LIVING else ():
                holders[machine, gpu].append(claim.attempt)
    return [
        f"{gpu} on {machine} is held by {', '.join(attempts)}"
        for (machine, gpu), attempts in holders.items()
        if len(attempts) > 1
    ]


def _find_strangers(picture: Picture) -> list[str]:
    """Containers of ours that the ledger does not know and nobody is shown."""
    return [
        f"container of {claim.attempt} on {machine} is {claim.state}, and the ledger does not know it"
        for machine, claims in picture.containers.items()
        for claim in claims
        if claim.install == picture.install and claim.attempt not in picture.attempts | picture.shown
    ]


def _find_disagreements(picture: Picture) -> list[str]:
    """Where ledger and engines differ on what runs."""
    ours = [claim for claims in picture.containers.values() for claim in claims if claim.install == picture.install]
    living: Counter[str] = Counter(claim.attempt for claim in ours if claim.state in _HELD)
    believed = {line.attempt for line in picture.jobs.values() if line.state in {"PENDING", "RUNNING"}}
    running = [(job, line.attempt) for job, line in picture.jobs.items() if line.state == "RUNNING"]
    ended = [f"{job} is RUNNING, and no container of {one} lives" for job, one in running if not living[one or ""]]
    alive = [
        f"{attempt} lives {count} times, and the ledger has no job that runs it"
        for attempt, count in living.items()
        if (attempt not in believed or count > 1) and attempt not in picture.shown
    ]
    return ended + alive


def _find_silent(picture: Picture) -> list[str]:
    """Jobs that wait and do not say for what."""
    return [
        f"{job} is {line.state} and says nothing"
        for job, line in picture.jobs.items()
        if line.state in {"QUEUED", "SUBMITTED"} and not line.note
    ]


def take_picture(fleet: Farm, submitted: Sequence[str], *, asking: bool = True) -> Picture:
    """The fleet as it is now; the console is asked for what it shows unless it is away (`asking` is False)."""
    state = Path(fleet.console.environment["FORGE_CONSOLE_STATE_DIR"])
    shown = fleet.look()["unknown_attempts"] if asking else ()
    # Engines first: what the ledger learns meanwhile is newer, and the next picture shows whether they agree.
    containers = {machine.name: find_claims(machine.containers()) for machine in fleet.machines}
    with contextlib.closing(sqlite3.connect(f"file:{state / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        jobs = {
            job: JobLine(state=now, note=note, attempt=attempt)
            for job, now, note, attempt in ledger.execute("SELECT id, state, note, attempt_id FROM jobs")
        }
        kept = frozenset(one for (one,) in ledger.execute("SELECT id FROM attempts WHERE cleaned_at IS NULL"))
        (install,) = ledger.execute("SELECT value FROM facts WHERE name = 'install'").fetchone()
    return Picture(
        install=install,
        containers=containers,
        submitted=tuple(submitted),
        jobs=jobs,
        attempts=kept,
        starts=_count_starts(fleet.console.storage / "runs"),
        shown=frozenset(shown),
    )


def _count_starts(runs: Path) -> Counter[str]:
    files = [*runs.glob("*/out/starts"), *runs.glob("*/out-*/starts")]
    return Counter(attempt for file in files for attempt in file.read_text().split())


@dataclass(slots=True)
class Watch:
    """What was seen while it looked on: `faults` must stay empty, and `samples` must not."""

    faults: list[str] = field(default_factory=list)
    samples: int = 0
    busiest: int = 0
    """The most GPUs that were held at one moment."""


@contextlib.contextmanager
def watching(fleet: Farm) -> Iterator[Watch]:
    """Look at every engine again and again, whatever else goes on; an engine that is away shows nothing."""
    watch, over = Watch(), threading.Event()

    def look() -> None:
        while not over.wait(_SAMPLE_S):
            seen: dict[str, Sequence[Claim]] = {}
            for machine in fleet.machines:
                with contextlib.suppress(StarForgeError):
                    seen[machine.name] = find_claims(machine.containers())
            watch.samples += 1
            watch.faults += find_shared_gpus(seen)
            held = sum(len(one.gpus) for claims in seen.values() for one in claims if one.state in LIVING)
            watch.busiest = max(watch.busiest, held)

    thread = threading.Thread(target=look, name="watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
