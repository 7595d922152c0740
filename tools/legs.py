"""Runs legs of the test-suite and holds each to its floor: a green line must mean that something ran.

`python -m tools.legs NAME…` one after the other, or `--ci` for those that continuous integration runs, where legs that
wait more than they compute run in lanes side by side, or `--all` for every leg that is not within another. A part that
a leg requires (a marker, such as `engine`) may be missing only when ALLOW_SKIP names it; one that is optional may be
missing as a whole. What ran of each part is said.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

FLOORS: Final = Path("tests/floors.toml")
OUTCOMES: Final = ("passed", "failed", "skipped")
_ONE_AT_A_TIME: Final = Lock()


@dataclass(frozen=True, slots=True)
class Leg:
    """One selection of tests and what must have passed of it; the legs of a lane run beside those of the others."""

    name: str
    select: tuple[str, ...]
    floor: int
    parts: Mapping[str, int]
    ci: bool
    lane: int = 0
    within: str = ""
    optional: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run came to, in all and for each part."""

    returncode: int
    totals: Mapping[str, int]
    parts: Mapping[str, Mapping[str, int]]


def load_legs(root: Path) -> dict[str, Leg]:
    """All legs by name.

    Raises:
        ValueError: a leg has no floor above 0, or a part's floor is above the leg's own.
    """
    tables: dict[str, Any] = tomllib.loads((root / FLOORS).read_text(encoding="utf-8"))["leg"]
    legs = {}
    for name, table in tables.items():
        leg = Leg(
            name,
            tuple(table["select"]),
            table["floor"],
            table.get("parts", {}),
            table.get("ci", False),
            table.get("lane", 0),
            table.get("within", ""),
            table.get("optional", {}),
        )
        if leg.floor < 1 or sum([*leg.parts.values(), *leg.optional.values()]) > leg.floor:
            raise ValueError(
                f"{FLOORS}: leg {name}: floor {leg.floor} must be at least 1 and cover its parts "
                f"{[*leg.parts.items(), *leg.optional.items()]}"
            )
        legs[name] = leg
    return legs


def decide_shortfalls(leg: Leg, counts: Counts, allowed: frozenset[str]) -> list[str]:
    """Why the leg is not green, in sentences; nothing when it is."""
    reasons = []
    if counts.returncode != 0:
        reasons.append(f"{leg.name}: pytest ended with {counts.returncode}, {counts.totals['failed']} failed")
    excused = sum(least for part, least in leg.parts.items() if part in allowed)
    missing = [part for part in leg.optional if is_missing(counts, part)]
    floor = leg.floor - excused - sum(leg.optional[part] for part in missing)
    if counts.totals["passed"] < floor:
        reasons.append(f"{leg.name}: {counts.totals['passed']} passed, the floor in {FLOORS} is {floor}")
    for part, least in {**leg.parts, **leg.optional}.items():
        if part in allowed or part in missing:
            continue
        seen = counts.parts[part]
        if seen["passed"] < least:
            reasons.append(f"{leg.name}: part {part}: {seen['passed']} passed, at least {least} must")
        if seen["skipped"]:
            reasons.append(
                f"{leg.name}: part {part}: {seen['skipped']} skipped. Supply what it needs (tools/needs.sh {part}), "
                f"or leave it out knowingly with ALLOW_SKIP={part}",
            )
    return reasons


def is_missing(counts: Counts, part: str) -> bool:
    """Whether every test of the part was skipped: the machine lacks what the part needs."""
    seen = counts.parts[part]
    return bool(seen["skipped"]) and not seen["passed"] and not seen["failed"]


def describe_parts(leg: Leg, counts: Counts) -> list[str]:
    """What came of each part of the leg, a sentence for each."""
    said = []
    for part in {**leg.parts, **leg.optional}:
        came_to = "{passed} passed, {failed} failed, {skipped} skipped".format(**counts.parts[part])
        left_out = "; it is optional, and this machine lacks what it needs (see above)"
        lacks = part in leg.optional and is_missing(counts, part)
        said.append(f"part {part} of {leg.name}: {came_to}{left_out if lacks else ''}")
    return said


def main(root: Path, arguments: Sequence[str]) -> int:
    """Runs the named legs one after the other, or those of --ci or --all; 0: all are green, 2: a name is unknown."""
    legs = load_legs(root)
    groups = {
        "--ci": [leg.name for leg in legs.values() if leg.ci],
        "--all": [leg.name for leg in legs.values() if not leg.within],
    }
    whole = len(arguments) == 1 and arguments[0] in groups
    names = groups[arguments[0]] if whole else list(arguments)
    unknown = [name for name in names if name not in legs]
    if unknown or not names:
        print(f"no leg is called {', '.join(unknown) or '(nothing)'}; known: {', '.join(legs)}")
        return 2
    allowed = frozenset(re.split(r"[\s,]+", os.environ.get("ALLOW_SKIP", "")))
    chosen = [legs[name] for name in names]
    counted = _run_in_lanes(root, chosen) if whole else _run_all(root, chosen)
    reasons = [reason for leg, counts in counted for reason in decide_shortfalls(leg, counts, allowed)]
    for sentence in (sentence for leg, counts in counted for sentence in describe_parts(leg, counts)):
        print(sentence)
    for reason in reasons:
        print(f"not green: {reason}")
    totals = {outcome: sum(counts.totals[outcome] for _, counts in counted) for outcome in OUTCOMES}
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**totals))
    return 1 if reasons else 0


def _run_in_lanes(root: Path, legs: Sequence[Leg]) -> list[tuple[Leg, Counts]]:
    """Runs first the legs that have no lane, for they use the whole machine, then the lanes side by side."""
    alone = [leg for leg in legs if not leg.lane]
    lanes = [[leg for leg in legs if leg.lane == lane] for lane in sorted({leg.lane for leg in legs} - {0})]
    counted = _run_all(root, alone)
    with ThreadPoolExecutor(max_workers=max(1, len(lanes))) as threads:
        return counted + [
            one for lane in threads.map(lambda lane: _run_all(root, lane, whole=True), lanes) for one in lane
        ]


def _run_all(root: Path, legs: Iterable[Leg], *, whole: bool = False) -> list[tuple[Leg, Counts]]:
    return [(leg, _run(root, leg, whole=whole)) for leg in legs]


def _run(root: Path, leg: Leg, *, whole: bool) -> Counts:
    """Runs pytest for one leg; a run that left no counts counts as nothing passed.

    What it prints comes as it comes, or, `whole`, at its end: two legs at once would print through each other.
    """
    folder = Path(tempfile.mkdtemp(prefix="starforge-leg-"))
    folder.chmod(0o755)  # jobs of the tests run as users of their own and must reach their folders
    path = folder / "counts.json"
    # A folder of its own: in the shared one pytest cleans up after other runs, and trips over them when they are alive.
    argv = [sys.executable, "-m", "pytest", "-q", f"--counts={path}", f"--basetemp={folder / 'tmp'}", *leg.select]
    if whole:
        done = subprocess.run(argv, cwd=root, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        _print_whole(leg, done.stdout)
    else:
        print(f"leg {leg.name}", flush=True)
        done = subprocess.run(argv, cwd=root, check=False)
    counted = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    subprocess.run(["rm", "-rf", folder], check=False)  # however deep a test has nested its folders
    nothing = dict.fromkeys(OUTCOMES, 0)
    parts = counted.get("parts", {})
    return Counts(
        # An interrupted or broken run must not look green, whatever it counted.
        returncode=done.returncode,
        totals={outcome: counted.get(outcome, 0) for outcome in OUTCOMES},
        parts={part: parts.get(part, nothing) for part in {**leg.parts, **leg.optional}},
    )


def _print_whole(leg: Leg, output: bytes) -> None:
    with _ONE_AT_A_TIME:
        sys.stdout.write(f"leg {leg.name}\n{output.decode(errors='replace')}")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
