"""`make faults`: a random mix of faults over one fleet, round after round; every round ends with all invariants.

A violation ends the run with exit code 1 and the SEED that shows it again; so does a kind of fault that was never
injected. At the end the invariants themselves are tried: each way in which a picture can be false must be found.
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from e2e.faults.kinds import KINDS, Kind
from e2e.faults.mutants import find_alive
from e2e.support.engines import find_obstacle, private_engine
from e2e.support.farm import farm
from e2e.support.images import host_image
from e2e.support.invariants import watching
from e2e.support.projects import make_experiment
from e2e.support.work import Work, make_work

MACHINES: Final = 3
JOBS: Final = 5
LEAST_KINDS: Final = 2
SETTLED_S: Final = 120.0


def main() -> int:
    """Run; gives the exit code."""
    rounds = int(os.environ.get("ROUNDS") or 5)
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
    obstacle = find_obstacle()
    if obstacle is not None or rounds < 1:
        print(f"faults cannot run: {obstacle or f'ROUNDS is {rounds}'}")
        return 2
    print(f"faults SEED={seed} ROUNDS={rounds}", flush=True)
    dice, injected = random.Random(seed), Counter[str]()  # noqa: S311 - to be repeated, not to be secret
    violations: list[str] = []
    with _fleet() as work:
        for number, kinds in enumerate(deal(dice, rounds), 1):
            violations = _run_round(work, dice, kinds, injected)
            told = ", ".join(kind.name for kind in kinds)
            print(f"round {number} of {rounds}: {told}: {'; '.join(violations) or 'ok'}", flush=True)
            if violations:
                break
        alive = [] if violations else find_alive(work.picture())
    return _report(rounds, seed, injected, [*violations, *alive])


def deal(dice: random.Random, rounds: int) -> list[list[Kind]]:
    """The kinds of each round: a pack that is shuffled anew when it is empty, so that none is left out. Pure."""
    share = max(LEAST_KINDS, -(-len(KINDS) // rounds))
    pack: list[Kind] = []
    dealt = []
    for _ in range(rounds):
        hand: list[Kind] = []
        while len(hand) < share:
            pack = pack or dice.sample(KINDS, len(KINDS))
            hand.append(pack.pop())
        dealt.append(hand)
    return dealt


def _run_round(work: Work, dice: random.Random, kinds: Sequence[Kind], injected: Counter[str]) -> list[str]:
    """What was violated while these faults met a load of jobs, and after they were mended."""
    jobs = [work.submit(f"sleep {dice.uniform(0.2, 4):.1f}\n", dice.randint(1, 8), retries=3) for _ in range(JOBS)]
    with watching(work.fleet) as watch:
        for kind in kinds:
            machine = dice.choice(work.fleet.machines)
            kind.inject(work, machine, dice)
            injected[kind.name] += 1
        work.mend()
        try:
            work.fleet.wait_ready(limit_s=SETTLED_S)
            for job in jobs:
                work.wait_end(job, SETTLED_S)
            work.check(SETTLED_S)
        except (TimeoutError, AssertionError) as error:
            return [str(error)]
    ends = {job: work.probe.state(job) for job in jobs}
    failed = [
        f"{job} ended as {end}, and its script never fails: {work.note(job)}"
        for job, end in ends.items()
        if end != "SUCCEEDED"
    ]
    return [*watch.faults, *failed]


def _report(rounds: int, seed: int, injected: Counter[str], violations: Sequence[str]) -> int:
    for kind in KINDS:
        print(f"fault {kind.name} {injected[kind.name]}")
    missing = [kind.name for kind in KINDS if not injected[kind.name]]
    for violation in violations:
        print(f"violation: {violation}")
    if violations:
        print(f"show it again: make faults ROUNDS={rounds} SEED={seed}")
    elif missing:
        print(f"never injected: {', '.join(missing)}")
    print(f"faults {rounds} rounds, {len(violations)} violations")
    return 1 if violations or missing else 0


@contextmanager
def _fleet() -> Iterator[Work]:
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sff-")))
        folder.chmod(0o755)
        engines = [
            stack.enter_context(private_engine(folder / str(number), *(("--live-restore",) if number else ())))
            for number in range(MACHINES)
        ]
        fleet = stack.enter_context(farm(folder / "farm", engines))
        work = make_work(fleet, make_experiment(fleet.console, host_image(engines[0]), "exit 0"))
        print(f"{MACHINES} machines after {time.monotonic() - began:.0f} s", flush=True)
        yield work


if __name__ == "__main__":
    sys.exit(main())
