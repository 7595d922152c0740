"""Teams and quotas from the command line of the console's machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.owned import MEMORY, owned_folder
from server.tests.cli.test_console_command import Command


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with owned_folder(MEMORY) as secrets:
        made = Command(tmp_path, secrets)
        assert made("init").exit_code == 0
        assert made("user", "add", "ann").exit_code == 0
        yield made


def items(command: Command) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(command("quota", "ls", "--json").stdout)["items"]
    return found


def test_limits_are_set_part_by_part_listed_and_taken_away(command: Command) -> None:
    assert command("quota", "set", "--user", "ann", "--gpus", "8").exit_code == 0
    done = command("quota", "set", "--user", "ann", "--jobs", "3", "--series", "h200, l40s")
    assert "user ann: 8 GPUs at once, 3 jobs at once, series h200, l40s" in done.stderr
    held = {"gpus": 0, "jobs": 0}
    limits = {
        "gpus": 8,
        "jobs": 3,
        "series": ["h200", "l40s"],
        "gpu_hours": None,
        "storage_gib": None,
        "profiles": None,
    }
    used = {"held": held, "gpu_seconds": 0, "stored_bytes": 0, "runs": [], "other_runs": None}
    ann = {"kind": "user", "name": "ann", **limits, **used}
    assert items(command) == [ann]
    assert "0 of 8" in command("quota", "ls").stdout
    assert "12 GPU-hours in 24 hours" in command("quota", "set", "--user", "ann", "--gpu-hours", "12").stderr
    assert "0.00 of 12" in command("quota", "ls", "--runs").stdout
    more = command("quota", "set", "--user", "ann", "--storage-gib", "500", "--profiles", "cpu,h200").stderr
    assert "500 GiB of storage" in more
    assert "profiles cpu, h200" in more
    assert "0 B of 500 GiB" in command("quota", "ls").stdout
    assert command("quota", "set", "--user", "ann", "--gpu-hours", "none").exit_code == 0
    assert command("quota", "set", "--user", "ann", "--storage-gib", "none", "--profiles", "none").exit_code == 0
    assert command("quota", "set", "--user", "ann", "--gpus", "none", "--series", "none").exit_code == 0
    assert items(command) == [ann | {"gpus": None, "series": None}]
    assert command("quota", "rm", "--user", "ann").exit_code == 0
    assert items(command) == []
    assert "nobody has a quota" in command("quota", "ls").stderr


def test_a_user_belongs_to_one_team_or_to_none(command: Command) -> None:
    assert "team ml has 1 member: ann" in command("user", "team", "ann", "ml").stderr
    assert "nobody is in team vision yet" in command("quota", "set", "--team", "vision", "--jobs", "1").stderr
    assert "team vision has 1 member: ann" in command("user", "team", "ann", "vision").stderr
    assert "user ann is in no team" in command("user", "team", "ann", "--none").stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["quota", "set", "--gpus", "1"], "name one holder"),
        (["quota", "set", "--user", "ann", "--team", "ml", "--gpus", "1"], "name one holder"),
        (["quota", "set", "--user", "ann"], "no limit is named"),
        (["quota", "set", "--user", "anna", "--gpus", "1"], "did you mean 'ann'?"),
        (["quota", "set", "--user", "ann", "--gpus", "-1"], "is no number of GPUs"),
        (["quota", "set", "--user", "ann", "--gpu-hours", "1.5"], "is no number of GPU-hours"),
        (["quota", "set", "--user", "ann", "--series", "h20x"], "did you mean 'h20'?"),
        (["quota", "set", "--user", "ann", "--storage-gib", "1TB"], "is no number of GiB"),
        (["quota", "set", "--user", "ann", "--profiles", "cpus"], "did you mean 'cpu'?"),
        (["quota", "set", "--user", "ann", "--profiles", ","], "no profile is named"),
        (["quota", "set", "--team", "M L", "--gpus", "1"], "cannot be the name of a team"),
        (["quota", "rm", "--user", "ann"], "has no quota"),
        (["user", "team", "ann"], "name a team, or give --none"),
        (["user", "team", "eve", "ml"], "there is no user 'eve'"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(command: Command, arguments: list[str], told: str) -> None:
    done = command(*arguments)
    assert done.exit_code != 0
    assert told in done.stderr
    assert items(command) == []
