"""Runs legs of the test-suite and holds each to its floor: a green line must mean that something ran.

`python -m tools.legs NAME…` or `--ci` for those that continuous integration runs. A part that a leg requires (a marker,
such as `engine`) may be missing only when ALLOW_SKIP names it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FLOORS: Final = Path("tests/floors.toml")
OUTCOMES: Final = ("passed", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Leg:
    """One selection of tests and what must have passed of it."""

    name: str
    select: tuple[str, ...]
    floor: int
    parts: Mapping[str, int]
    ci: bool


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
        leg = Leg(name, tuple(table["select"]), table["floor"], table.get("parts", {}), table.get("ci", False))
        if leg.floor < 1 or sum(leg.parts.values()) > leg.floor:
            raise ValueError(
                f"{FLOORS}: leg {name}: floor {leg.floor} must be at least 1 and cover its parts {leg.parts}"
            )
        legs[name] = leg
    return legs


def decide_shortfalls(leg: Leg, counts: Counts, allowed: frozenset[str]) -> list[str]:
    """Why the leg is not green, in sentences; nothing when it is."""
    reasons = []
    if counts.returncode != 0:
        reasons.append(f"{leg.name}: pytest ended with {counts.returncode}, {counts.totals['failed']} failed")
    excused = sum(least for part, least in leg.parts.items() if part in allowed)
    floor = leg.floor - excused
    if counts.totals["passed"] < floor:
        reasons.append(f"{leg.name}: {counts.totals['passed']} passed, the floor in {FLOORS} is {floor}")
    for part, least in leg.parts.items():
        if part in allowed:
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


def main(root: Path, arguments: Sequence[str]) -> int:
    """Runs the named legs one after the other; 0 when all are green, 2 when a name is unknown."""
    legs = load_legs(root)
    names = [leg.name for leg in legs.values() if leg.ci] if list(arguments) == ["--ci"] else list(arguments)
    unknown = [name for name in names if name not in legs]
    if unknown or not names:
        print(f"no leg is called {', '.join(unknown) or '(nothing)'}; known: {', '.join(legs)}")
        return 2
    allowed = frozenset(re.split(r"[\s,]+", os.environ.get("ALLOW_SKIP", "")))
    reasons: list[str] = []
    totals = dict.fromkeys(OUTCOMES, 0)
    for name in names:
        counts = _run(root, legs[name])
        reasons += decide_shortfalls(legs[name], counts, allowed)
        totals = {outcome: totals[outcome] + counts.totals[outcome] for outcome in OUTCOMES}
    for reason in reasons:
        print(f"not green: {reason}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**totals))
    return 1 if reasons else 0


def _run(root: Path, leg: Leg) -> Counts:
    """Runs pytest for one leg; a run that left no counts counts as nothing passed."""
    folder = Path(tempfile.mkdtemp(prefix="starforge-leg-"))
    folder.chmod(0o755)  # jobs of the tests run as users of their own and must reach their folders
    path = folder / "counts.json"
    # A folder of its own: in the shared one pytest cleans up after other runs, and trips over them when they are alive.
    argv = [sys.executable, "-m", "pytest", "-q", f"--counts={path}", f"--basetemp={folder / 'tmp'}", *leg.select]
    print(f"leg {leg.name}", flush=True)
    returncode = subprocess.run(argv, cwd=root, check=False).returncode
    counted = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    subprocess.run(["rm", "-rf", folder], check=False)  # however deep a test has nested its folders
    nothing = dict.fromkeys(OUTCOMES, 0)
    parts = counted.get("parts", {})
    return Counts(
        # An interrupted or broken run must not look green, whatever it counted.
        returncode=returncode,
        totals={outcome: counted.get(outcome, 0) for outcome in OUTCOMES},
        parts={part: parts.get(part, nothing) for part in leg.parts},
    )


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
