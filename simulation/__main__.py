"""make simulate SEEDS=N: so many installs, each broken at random in virtual time; every mutant must be found out.

The last line is `seeds N, violations V`, and the one before it counts the faults by kind. A violation comes with its
seed and the shortest history that shows it.
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

_SEEDS_OF_MUTANTS: Final = 100
_AT_ONCE: Final = 8
_ALL_MET_IN: Final = 100
"""So many seeds meet every kind of fault."""


def main() -> int:
    """Run them all; 1 where a sentence of safety did not hold or a mutant got away."""
    seeds, first = int(os.environ.get("SEEDS") or 100), int(os.environ.get("SEED") or 0)
    events: Counter[str] = Counter()
    violations = 0
    _be_quiet()
    with ProcessPoolExecutor(os.cpu_count(), initializer=_be_quiet) as pool:
        for outcome in pool.map(run_seed, range(first, first + seeds), chunksize=4):
            events += outcome.events
            if outcome.violation:
                violations += 1
                print(f"VIOLATION with seed {outcome.seed}: {outcome.violation}; it is shortened", flush=True)
                _tell(shorten(outcome))
        caught = [_catch(pool, name) for name in MUTANTS]
    for name, count in sorted(events.items()):
        print(f"  {count:7d}  {name}")
    faults = {fault.value: events[fault.value] for fault in FAULTS}
    print(f"mutants {len(MUTANTS)}, caught {sum(caught)}")
    print(f"faults {sum(faults.values())}: {', '.join(f'{name} {count}' for name, count in faults.items())}")
    print(f"seeds {seeds}, violations {violations}")
    never_met = seeds >= _ALL_MET_IN and not all(faults.values())
    return int(bool(violations) or not all(caught) or never_met)


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
    print(f"the shortest history: {outcome.violation}")
    for number, step in enumerate(outcome.steps, 1):
        print(f"  {number:3d}  {step}")


if __name__ == "__main__":
    sys.exit(main())
