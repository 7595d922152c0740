"""A leg is green only when enough of it ran."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.legs import Counts, Leg, decide_shortfalls, describe_parts, load_legs
from tools.tests.support.trees import ROOT, build_tree

LEG = Leg(name="test", select=(), floor=10, parts={"engine": 4}, ci=True)
NOTHING_ALLOWED: frozenset[str] = frozenset()


def _counts(passed: int, engine: tuple[int, int], *, returncode: int = 0, failed: int = 0) -> Counts:
    ran, skipped = engine
    return Counts(
        returncode=returncode,
        totals={"passed": passed, "failed": failed, "skipped": skipped},
        parts={"engine": {"passed": ran, "failed": 0, "skipped": skipped}},
    )


def test_enough_passed_and_nothing_skipped_is_green() -> None:
    assert decide_shortfalls(LEG, _counts(10, (4, 0)), NOTHING_ALLOWED) == []


def test_one_below_the_floor_is_not_green() -> None:
    (reason,) = decide_shortfalls(LEG, _counts(9, (4, 0)), NOTHING_ALLOWED)
    assert "9 passed, the floor in tests/floors.toml is 10" in reason


def test_a_run_that_failed_is_not_green_however_much_passed() -> None:
    (reason,) = decide_shortfalls(LEG, _counts(50, (4, 0), returncode=1, failed=1), NOTHING_ALLOWED)
    assert "pytest ended with 1, 1 failed" in reason


def test_a_skipped_part_is_not_green_even_above_the_floor() -> None:
    reasons = decide_shortfalls(LEG, _counts(50, (4, 1)), NOTHING_ALLOWED)
    assert ["ALLOW_SKIP=engine" in reason for reason in reasons] == [True]


def test_a_part_that_was_not_collected_is_not_green() -> None:
    (reason,) = decide_shortfalls(LEG, _counts(50, (0, 0)), NOTHING_ALLOWED)
    assert "part engine: 0 passed, at least 4 must" in reason


def test_an_allowed_part_lowers_the_floor_by_its_own_and_no_more() -> None:
    allowed = frozenset({"engine"})
    assert decide_shortfalls(LEG, _counts(6, (0, 4)), allowed) == []
    assert len(decide_shortfalls(LEG, _counts(5, (0, 4)), allowed)) == 1


def test_a_part_that_is_optional_may_be_missing_as_a_whole_and_that_is_said() -> None:
    leg = replace(LEG, parts={}, optional={"engine": 4})
    assert decide_shortfalls(leg, _counts(6, (0, 4)), NOTHING_ALLOWED) == []
    (said,) = describe_parts(leg, _counts(6, (0, 4)))
    assert said.startswith("part engine of test: 0 passed, 0 failed, 4 skipped; it is optional")
    assert describe_parts(leg, _counts(10, (4, 0))) == ["part engine of test: 4 passed, 0 failed, 0 skipped"]


def test_a_part_that_is_optional_runs_as_a_whole_or_not_at_all() -> None:
    leg = replace(LEG, parts={}, optional={"engine": 4})
    assert len(decide_shortfalls(leg, _counts(9, (3, 1)), NOTHING_ALLOWED)) == 3
    assert len(decide_shortfalls(leg, _counts(5, (0, 4)), NOTHING_ALLOWED)) == 1


@pytest.mark.parametrize("table", ["floor = 0", "floor = 3\nparts.engine = 4", "floor = 3\noptional.engine = 4"])
def test_a_floor_that_holds_nothing_up_is_refused(tmp_path: Path, table: str) -> None:
    build_tree(tmp_path, {"tests/floors.toml": f"[leg.x]\nselect = []\n{table}\n"})
    with pytest.raises(ValueError, match="leg x"):
        load_legs(tmp_path)


def test_every_leg_of_the_repository_has_a_floor() -> None:
    assert all(leg.floor > 0 for leg in load_legs(ROOT).values())


SUITE = """
import pytest

def test_passes() -> None: pass

@pytest.mark.engine
def test_needs_an_engine() -> None: pytest.skip("no engine here")
"""

BROKEN = """
@pytest.fixture(params=["one", "two"])
def broken(): raise OSError("no room")

def test_with_a_broken_fixture(broken: None) -> None: pass
"""


def _run_legs(folder: Path, *names: str, suite: str = SUITE, allow: str = "") -> subprocess.CompletedProcess[str]:
    """Runs legs of a small suite under two workers, as the repository's own are run."""
    floors = (
        '[leg.all]\nselect = ["-n", "2"]\nfloor = 1\nci = true\n'
        '[leg.parts]\nselect = ["-n", "2"]\nfloor = 2\nparts.engine = 1\n'
    )
    ini = '[tool.pytest.ini_options]\nparts = ["engine"]\nmarkers = ["engine"]\naddopts = ["-p", "tools.lastline"]\n'
    build_tree(
        folder,
        {"tests/floors.toml": floors, "pyproject.toml": ini, "test_it.py": suite},
    )
    return _call_legs(folder, *names, allow=allow)


def _call_legs(folder: Path, *names: str, allow: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ALLOW_SKIP": allow}
    argv = [sys.executable, "-m", "tools.legs", *names]
    return subprocess.run(argv, cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=100)


def test_a_green_run_ends_with_the_counts_alone_on_the_last_line(tmp_path: Path) -> None:
    done = _run_legs(tmp_path, "--ci")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed, 1 skipped")


def test_errors_count_as_failed(tmp_path: Path) -> None:
    done = _run_legs(tmp_path, "all", suite=SUITE + BROKEN)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 passed, 2 failed, 1 skipped")


def test_a_required_part_that_skipped_itself_fails_the_leg(tmp_path: Path) -> None:
    done = _run_legs(tmp_path, "parts")
    assert done.returncode == 1
    assert "part engine: 1 skipped" in done.stdout


def test_a_part_may_be_left_out_knowingly(tmp_path: Path) -> None:
    assert _run_legs(tmp_path, "parts", allow="tini, engine").returncode == 0


def test_a_leg_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    done = _run_legs(tmp_path, "e2e-nothing")
    assert done.returncode == 2
    assert "no leg is called e2e-nothing; known: all, parts" in done.stdout


MEETING = """
def test_meets_the_other(pytestconfig) -> None:
    with open(pytestconfig.rootpath / "pipe", "{way}"):  # waits until the other leg has opened the other end
        pass
"""


def test_lanes_run_side_by_side_and_each_leg_prints_its_lines_together(tmp_path: Path) -> None:
    floors = "".join(
        f'[leg.{name}]\nselect = ["test_{name}.py"]\nfloor = 1\nci = true\nlane = {lane}\n'
        for lane, name in enumerate(("one", "two"), 1)
    )
    ini = '[tool.pytest.ini_options]\naddopts = ["-p", "tools.lastline"]\n'
    suites = {f"test_{name}.py": MEETING.format(way=way) for name, way in (("one", "w"), ("two", "r"))}
    build_tree(tmp_path, {"tests/floors.toml": floors, "pyproject.toml": ini, **suites})
    os.mkfifo(tmp_path / "pipe")
    done = _call_legs(tmp_path, "--ci")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "2 passed, 0 failed, 0 skipped")
    begun = [lines.index(f"leg {name}") for name in ("one", "two")]
    assert "1 passed, 0 failed, 0 skipped" in lines[min(begun) : max(begun)]


def test_all_legs_are_those_that_no_other_leg_runs(tmp_path: Path) -> None:
    floors = '[leg.whole]\nselect = []\nfloor = 1\n[leg.some]\nselect = ["-k", "passes"]\nfloor = 1\nwithin = "whole"\n'
    ini = '[tool.pytest.ini_options]\nparts = []\nmarkers = ["engine"]\naddopts = ["-p", "tools.lastline"]\n'
    build_tree(tmp_path, {"tests/floors.toml": floors, "pyproject.toml": ini, "test_it.py": SUITE})
    done = _call_legs(tmp_path, "--all")
    assert [line for line in done.stdout.splitlines() if line.startswith("leg ")] == ["leg whole"]
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
