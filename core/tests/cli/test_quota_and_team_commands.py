"""`sf admin quota` and `sf admin team`: what is sent, and what is said."""

import json
from typing import Any

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

pytestmark = pytest.mark.usefixtures("server")

PLACE = "/admin/quotas"
LIMITS = {"gpus": 8, "jobs": None, "series": ["h200"], "gpu_hours": 12, "storage_gib": None, "profiles": None}
RUN = {
    "job": "j-1",
    "user": "ann",
    "gpus": 2,
    "jobs": 1,
    "gpu_seconds": 5400,
    "stored_bytes": 2048,
    "unanswered": True,
}
USED = {"held": {"gpus": 2, "jobs": 1}, "gpu_seconds": 5400, "stored_bytes": 2048, "runs": [RUN], "other_runs": None}
VISION: dict[str, Any] = {"kind": "team", "name": "vision", **LIMITS, **USED}
ANN = {"name": "ann", "role": "member", "active": True, "team": "vision", "held": {"gpus": 2, "jobs": 1}}
BOB = {"name": "bob", "role": "member", "active": True, "team": None, "held": {"gpus": 0, "jobs": 0}}


def sent(state: ConsoleState) -> list[dict[str, Any]]:
    return [json.loads(seen.body) for seen in state.seen if seen.method == "PUT"]


def test_limits_are_listed_with_what_counts_and_the_runs_of_it(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"GET {PLACE}"] = {"items": [VISION]}
    assert sf("admin", "quota", "ls", "--json").json == {"items": [VISION]}
    shown = sf("admin", "quota", "ls").out
    assert "2 of 8" in shown
    assert "1.50 of 12" in shown
    assert "j-1" not in shown
    runs = sf("admin", "quota", "ls", "--runs").out
    assert "1.50 (does not answer)" in runs
    state.answers[f"GET {PLACE}"] = {"items": []}
    assert "nobody has a quota" in sf("admin", "quota", "ls").err


def test_what_is_not_named_of_a_limit_stays_as_it_is(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"GET {PLACE}"] = {"items": [VISION]}
    state.answers[f"PUT {PLACE}/team/vision"] = VISION
    done = sf(
        "admin", "quota", "set", "--team", "vision", "--jobs", "3", "--gpu-hours", "none", "--profiles", "cpu, h200"
    )
    assert done.code == 0, done.err
    assert done.out.startswith("team vision: 2 of 8 GPUs held")
    assert sent(state) == [LIMITS | {"jobs": 3, "gpu_hours": None, "profiles": ["cpu", "h200"]}]
    assert sf("admin", "quota", "set", "--team", "vision", "--gpus", "1", "--json").json == VISION


def test_whoever_had_no_limit_gets_what_is_named_alone(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"GET {PLACE}"] = {"items": [VISION]}
    state.answers[f"PUT {PLACE}/user/vision"] = VISION | {"kind": "user"}
    assert sf("admin", "quota", "set", "--user", "vision", "--gpus", "4").code == 0
    assert sent(state) == [dict.fromkeys(LIMITS) | {"gpus": 4}]


@pytest.mark.parametrize(
    "words",
    [
        ("--gpus", "4"),
        ("--user", "ann", "--team", "vision", "--gpus", "4"),
        ("--user", "ann"),
        ("--user", "ann", "--gpus", "-1"),
        ("--user", "ann", "--gpus", "many"),
        ("--user", "ann", "--storage-gib", "1000001"),
        ("--user", "ann", "--series", " , "),
    ],
)
def test_what_is_no_limit_is_refused_before_anything_is_sent(
    sf: Sf, state: ConsoleState, words: tuple[str, ...]
) -> None:
    assert sf("admin", "quota", "set", *words).code == 2
    assert [seen for seen in state.seen if seen.path.startswith("/admin")] == []


def test_a_limit_is_taken_away(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"DELETE {PLACE}/user/ann"] = {}
    assert "user ann: no limit" in sf("admin", "quota", "rm", "--user", "ann").err
    assert sf("admin", "quota", "rm", "--user", "ann", "--json").json == {"kind": "user", "name": "ann"}
    assert sf("admin", "quota", "rm").code == 2


def test_teams_are_listed_with_who_is_in_them_and_those_that_only_have_a_quota(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /admin/users"] = {"items": [ANN, BOB]}
    state.answers[f"GET {PLACE}"] = {"items": [VISION, VISION | {"name": "idle"}, VISION | {"kind": "user"}]}
    assert sf("admin", "team", "ls", "--json").json == {
        "items": [
            {"name": "idle", "members": [], "held": {"gpus": 0, "jobs": 0}, "quota": True},
            {"name": "vision", "members": ["ann"], "held": {"gpus": 2, "jobs": 1}, "quota": True},
        ]
    }
    assert sf("admin", "team", "ls").out.splitlines()[2].split() == ["vision", "ann", "2", "1", "yes"]
    state.answers[f"GET {PLACE}"] = {"items": []}
    state.answers["GET /admin/users"] = {"items": [BOB]}
    assert "nobody is in a team" in sf("admin", "team", "ls").err


def test_a_user_is_put_into_a_team_and_out_of_it(sf: Sf, state: ConsoleState) -> None:
    state.answers["PUT /admin/users/ann/team"] = ANN
    state.answers["GET /admin/users"] = {"items": [ANN, BOB]}
    assert sf("admin", "team", "set", "ann", "vision").out == "team vision has 1 member: ann\n"
    assert sf("admin", "team", "set", "ann", "vision", "--json").json == ANN
    assert sf("admin", "team", "set", "ann", "--none").out == "user ann is in no team\n"
    assert sent(state) == [{"team": "vision"}, {"team": "vision"}, {"team": None}]


@pytest.mark.parametrize("words", [("ann",), ("ann", "vision", "--none"), ()])
def test_no_team_or_a_contradiction_is_refused_before_anything_is_sent(
    sf: Sf, state: ConsoleState, words: tuple[str, ...]
) -> None:
    assert sf("admin", "team", "set", *words).code == 2
    assert [seen for seen in state.seen if seen.path.startswith("/admin")] == []
