"""make simulate SEEDS=N: so many installs, each broken at random in virtual time; every mutant must be found out.

The last line is `seeds N, violations V`. A violation comes with its seed and the shortest history that shows it.
"""

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import structlog

from simulation.mutants import MUTANTS
from simulation.runs import Outcome, run_seed, shorten
from simulation.steps import FAULTS

_SEEDS_OF_MUTANTS: Final = 400
_AT_ONCE: Final = 16


def main() -> int:
    """Run them all; 1 where a sentence of safety did not hold or a mutant got away."""
    seeds, first = int(os.environ.get("SEEDS") or 100), int(os.environ.get("SEED") or 0)
    events: Counter[str] = Counter()
    violations = 0
    with ProcessPoolExecutor(os.cpu_count(), initializer=_be_quiet) as pool:
        for outcome in pool.map(run_seed, range(first, first + seeds), chunksize=4):
            events += outcome.events
            if outcome.violation:
                violations += 1
                _tell(shorten(outcome))
        caught = [_catch(pool, name) for name in MUTANTS]
    for name, count in sorted(events.items()):
        print(f"  {count:7d}  {name}{'  (fault)' if name in set(FAULTS) else ''}")
    print(f"mutants {len(MUTANTS)}, caught {sum(caught)}")
    print(f"seeds {seeds}, violations {violations}")
    return int(bool(violations) or not all(caught))


def _be_quiet() -> None:
    """Faults by the hundred are what is wanted here: the console's words about them would bury the answer."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _catch(pool: ProcessPoolExecutor, name: str) -> bool:
    """Whether some seed finds the mutant out; says after how many."""
    for start in range(0, _SEEDS_OF_MUTANTS, _AT_ONCE):
        seeds = range(start, start + _AT_ONCE)
        found = next(_violations(pool, name, seeds), None)
        if found is not None:
            print(f"mutant {name}: caught by seed {found.seed}: {found.violation}")
            return True
    print(f"mutant {name}: NOT caught in {_SEEDS_OF_MUTANTS} seeds")
    return False


def _violations(pool: ProcessPoolExecutor, name: str, seeds: range) -> Iterator[Outcome]:
    return (one for one in pool.map(run_seed, seeds, [name] * len(seeds)) if one.violation)


def _tell(outcome: Outcome) -> None:
    print(f"VIOLATION with seed {outcome.seed}: {outcome.violation}")
    for number, step in enumerate(outcome.steps, 1):
        print(f"  {number:3d}  {step}")


if __name__ == "__main__":
    sys.exit(main())
