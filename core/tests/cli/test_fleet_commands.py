"""`sf fleet` and `sf node`: what they ask, what they print, and what they refuse to do unasked."""

import json
import time

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState
from starforge.contract.fleets import (
    FleetDetail,
    FleetSummary,
    GpuDetail,
    HolderView,
    MintedJoinToken,
    NodeChanged,
    NodeDetail,
    PullView,
)

pytestmark = pytest.mark.usefixtures("server")

SUMMARY = FleetSummary(
    name="gpu", kind="node", network="bridge", nodes=2, ready=1, gpus={"blocked": 0, "free": 6, "held": 1}
)
HOLDER = HolderView(attempt="j2k7abcdef-1-abcdef", phase="RUNNING", job="j2k7abcdef", name="first", user="ada")
NODE = NodeDetail(
    name="gpu7",
    fleet="gpu",
    status="ready",
    hostname="gpu7",
    advertise="10.0.0.7:7070",
    version="0.1.0",
    heard_s=4.0,
    gpus=(
        GpuDetail(uuid="GPU-0123456789abcdef", index=0, name="NVIDIA H200", series="h200", state="held", holder=HOLDER),
        GpuDetail(uuid="GPU-1", index=1, name="NVIDIA X9000", state="quarantined", why="uncorrected ECC errors"),
    ),
    attempts=(HOLDER,),
    pulls=(PullView(image="train:1", done_bytes=1 << 20, total_bytes=1 << 21),),
)
AWAY = NodeDetail(
    name="gpu8", fleet="gpu", status="away", why="no heartbeat\nfor 61 s", advertise="10.0.0.8:7070", heard_s=61.0
)
DETAIL = FleetDetail(
    fleet=SUMMARY, nodes=(NODE, AWAY), unknown_gpus=("NVIDIA X9000",), unknown_attempts=("j9z2abcdef-1-abcdef",)
)
MINTED = MintedJoinToken(
    id=3,
    token="sfj_made-up",  # noqa: S106 - made up
    line="curl … sh",
    lines={"curl": "curl … sh", "wget": "wget … sh", "sudo": "curl … sudo sh"},
    expires_at=time.time() + 7200,
    uses=1,
    doubt="FORGE_PUBLIC_URL is http://127.0.0.1:7080, which no other machine reaches",
)


def changed(state: str, *jobs: str) -> object:
    return NodeChanged(node="gpu7", fleet="gpu", state=state, fence=1, jobs=jobs).model_dump(mode="json")


def test_fleets_are_a_table_or_json(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /fleets"] = {"items": [SUMMARY.model_dump(mode="json")]}
    assert sf("fleet", "ls").out == ("FLEET  KIND  READY   GPUS\ngpu    node  1 of 2  6 free, 1 held\n")
    assert sf("fleet", "ls", "--json").json == {"items": [SUMMARY.model_dump(mode="json")]}
    state.answers["GET /fleets"] = {"items": []}
    assert "sf fleet create" in sf("fleet", "ls").out


def test_a_fleet_is_shown_with_whoever_holds_its_gpus_and_what_is_unknown(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /fleets/gpu"] = DETAIL.model_dump(mode="json")
    shown = sf("fleet", "show", "gpu")
    assert "    GPU 0 NVIDIA H200 (h200) GPU-01234567 held by j2k7abcdef of ada\n" in shown.out
    assert "    GPU 1 NVIDIA X9000 (no series) GPU-1 quarantined: uncorrected ECC errors\n" in shown.out
    assert "    fetching train:1: 1.0 MiB of 2.0 MiB\n" in shown.out
    assert "away: no heartbeat for 61 s\n" in shown.out
    assert "'NVIDIA X9000'" in shown.err
    assert "j9z2abcdef-1-abcdef" in shown.err
    assert sf("fleet", "show", "gpu", "--json").json == DETAIL.model_dump(mode="json")


def test_nodes_are_listed_of_all_fleets_or_of_one(sf: Sf, state: ConsoleState) -> None:
    nodes = [NODE.model_dump(mode="json"), AWAY.model_dump(mode="json")]
    state.answers |= {"GET /nodes": {"items": nodes}, "GET /fleets/gpu": DETAIL.model_dump(mode="json")}
    assert sf("node", "ls").out.splitlines() == [
        "NODE  FLEET  STATUS  GPUS                   HEARD          WHY",
        "gpu7  gpu    ready   1 held, 1 quarantined  4 s ago",
        "gpu8  gpu    away    -                      1 min 1 s ago  no heartbeat for 61 s",
    ]
    assert sf("node", "ls", "--fleet", "gpu", "--json").json == {"items": nodes}
    state.answers["GET /nodes"] = {"items": []}
    assert "sf fleet token" in sf("node", "ls").out


def test_a_fleet_is_made_as_asked(sf: Sf, state: ConsoleState) -> None:
    state.answers["POST /fleets"] = SUMMARY.model_dump(mode="json")
    made = sf("fleet", "create", "gpu", "--network", "host", "--user", "1000:1000")
    assert (made.code, made.out) == (0, "fleet gpu of kind node is there\n")
    assert "sf fleet token gpu" in made.err
    asked = json.loads(state.seen[-1].body)
    assert asked == {"name": "gpu", "kind": "node", "network": "host", "user": "1000:1000"}
    too_long = sf("fleet", "create", "g" * 300)
    assert (too_long.code, "name" in too_long.err) == (2, True)


def test_the_line_to_paste_is_all_of_the_standard_output(sf: Sf, state: ConsoleState) -> None:
    state.answers["POST /fleets/gpu/join-tokens"] = MINTED.model_dump(mode="json")
    minted = sf("fleet", "token", "gpu", "--hours", "2", "--uses", "1")
    assert minted.out == "curl … sh\n"
    assert "good for 1 machine within 2 h" in minted.err
    assert "FORGE_PUBLIC_URL" in minted.err
    assert json.loads(state.seen[-1].body) == {"hours": 2.0, "uses": 1}
    assert sf("fleet", "token", "gpu", "--json").json["token"] == MINTED.token


@pytest.mark.parametrize(
    ("words", "state_after", "body"),
    [
        (("drain", "gpu7", "--why", "a fan"), "draining", {"why": "a fan"}),
        (("undrain", "gpu7"), "active", None),
        (("remove", "gpu7"), "removed", None),
    ],
)
def test_a_machine_is_taken_out_of_use(
    sf: Sf, state: ConsoleState, words: tuple[str, ...], state_after: str, body: object
) -> None:
    state.answers[f"POST /nodes/gpu7/{words[0]}"] = changed(state_after)
    done = sf("node", *words)
    assert (done.code, "gpu7" in done.out) == (0, True)
    assert json.loads(state.seen[-1].body or b"null") == body
    assert sf("node", *words, "--json").json["state"] == state_after


def test_a_machine_is_declared_lost_only_by_its_name_said_twice(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /nodes"] = {"items": [{"name": "gpu7", "fleet": "gpu", "status": "away"}]}
    state.answers["POST /nodes/gpu7/mark-lost"] = changed("lost", "j2k7abcdef")
    unasked = sf("node", "mark-lost", "gpu7")
    assert (unasked.code, "--confirm gpu7" in unasked.err) == (2, True)
    assert {seen.method for seen in state.seen if seen.path.startswith("/nodes")} == {"GET"}
    lost = sf("node", "mark-lost", "gpu7", "--confirm", "gpu7")
    assert lost.out == "gpu7 is marked lost; 1 job failed as node_lost\n"
    assert "j2k7abcdef" in lost.err
    assert json.loads(state.seen[-1].body) == {"confirm": "gpu7"}


def test_nobody_is_asked_about_a_machine_that_there_is_not(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /nodes"] = {"items": [{"name": "gpu7", "fleet": "gpu", "status": "away"}]}
    done = sf("node", "mark-lost", "gpu8")
    assert done.code == 1
    assert "there is no node 'gpu8'" in done.err
    assert "did you mean 'gpu7'?" in done.err


def test_a_removal_is_not_repeated_by_itself_when_the_console_is_away(sf: Sf, state: ConsoleState) -> None:
    state.answers["POST /nodes/gpu7/remove"] = changed("removed")
    state.failures.append(("/nodes/gpu7/remove", 503, {}))
    asked = len(state.seen)
    assert sf("node", "remove", "gpu7").code == 1
    assert len(state.seen) == asked + 1


ADDED = {"name": "NVIDIA X9000", "series": "x9000", "added_by": "ada", "added_at": 1.0}


def test_join_tokens_are_listed_and_revoked_by_their_number(sf: Sf, state: ConsoleState) -> None:
    token = {"id": 3, "uses_left": 2, "created_by": "ada", "created_at": 1.0, "expires_at": time.time() + 7300}
    state.answers |= {"GET /fleets/gpu/join-tokens": {"items": [token]}, "DELETE /fleets/gpu/join-tokens/3": {}}
    assert sf("fleet", "token", "ls", "gpu").out.splitlines() == [
        "TOKEN  USES LEFT  MADE BY  ENDS IN",
        "3      2          ada      2 h 1 min",
    ]
    assert sf("fleet", "token", "ls", "gpu", "--json").json == {"items": [token]}
    assert sf("fleet", "token", "revoke", "gpu", "3").out == "join token 3 of fleet gpu lets nobody in any more\n"
    assert (state.seen[-1].method, state.seen[-1].path) == ("DELETE", "/fleets/gpu/join-tokens/3")
    assert sf("fleet", "token", "revoke", "gpu", "3", "--json").json == {"fleet": "gpu", "token": 3, "revoked": True}
    state.answers["GET /fleets/gpu/join-tokens"] = {"items": []}
    assert "sf fleet token gpu" in sf("fleet", "token", "ls", "gpu").out


@pytest.mark.parametrize("words", [("gpu", "--uses", "1"), ("--uses", "1", "gpu"), ("create", "gpu", "--uses", "1")])
def test_a_fleet_in_a_commands_place_is_what_a_token_is_made_for(
    sf: Sf, state: ConsoleState, words: tuple[str, ...]
) -> None:
    state.answers["POST /fleets/gpu/join-tokens"] = MINTED.model_dump(mode="json")
    assert sf("fleet", "token", *words).out == "curl … sh\n"
    assert json.loads(state.seen[-1].body)["uses"] == 1


def test_without_a_fleet_a_token_is_made_for_none(sf: Sf) -> None:
    done = sf("fleet", "token")
    assert (done.code, "'FLEET'" in done.err) == (2, True)
    assert "revoke" in sf("fleet", "token", "--help").out


def test_names_of_gpus_are_listed_added_and_forgotten(sf: Sf, state: ConsoleState) -> None:
    state.answers |= {
        "GET /gpu-series": {"items": [ADDED]},
        "GET /nodes": {"items": [NODE.model_dump(mode="json")]},
        "POST /gpu-series": ADDED,
        "DELETE /gpu-series": {},
    }
    listed = sf("fleet", "gpus")
    assert listed.out.splitlines() == ["NAME          SERIES  ADDED BY", "NVIDIA X9000  x9000   ada"]
    assert "'NVIDIA X9000' of gpu7" in listed.err
    told = sf("fleet", "gpus", "ls", "--json").json
    assert told == {"items": [ADDED], "unknown": [{"name": "NVIDIA X9000", "nodes": ["gpu7"]}]}
    assert sf("fleet", "gpus", "add", "NVIDIA X9000", "x9000").out == "NVIDIA X9000 is of the series x9000\n"
    assert json.loads(state.seen[-1].body) == {"name": "NVIDIA X9000", "series": "x9000"}
    assert sf("fleet", "gpus", "forget", "NVIDIA X9000").out == "NVIDIA X9000 has no series any more\n"
    assert state.seen[-1].method == "DELETE"
    state.answers |= {"GET /gpu-series": {"items": []}, "GET /nodes": {"items": []}}
    assert "every GPU of every machine is known" in sf("fleet", "gpus", "ls").out


def test_an_unknown_container_is_ended_only_by_whoever_says_so(sf: Sf, state: ConsoleState) -> None:
    attempt = "j9z2abcdef-1-abcdef"
    state.answers["POST /nodes/gpu7/end-unknown"] = {}
    asked = len(state.seen)
    unasked = sf("node", "end-unknown", "gpu7", attempt)
    assert (unasked.code, "--yes" in unasked.err, len(state.seen)) == (2, True, asked)
    assert sf("node", "end-unknown", "gpu7", attempt, "--yes").out.startswith(f"{attempt} is ending")
    assert json.loads(state.seen[-1].body) == {"attempt": attempt}
    told = sf("node", "end-unknown", "gpu7", attempt, "--yes", "--json").json
    assert told == {"node": "gpu7", "attempt": attempt, "ending": True}


def test_a_fleet_is_deleted_only_by_whoever_says_so(sf: Sf, state: ConsoleState) -> None:
    state.answers["DELETE /fleets/gpu"] = {}
    asked = len(state.seen)
    unasked = sf("fleet", "delete", "gpu")
    assert (unasked.code, "sf fleet delete gpu --yes" in unasked.err, len(state.seen)) == (2, True, asked)
    assert sf("fleet", "delete", "gpu", "--yes").out == "fleet gpu is deleted\n"
    assert (state.seen[-1].method, state.seen[-1].path) == ("DELETE", "/fleets/gpu")
    assert sf("fleet", "delete", "gpu", "--yes", "--json").json == {"name": "gpu", "deleted": True}


def test_a_fleet_can_require_a_time_limit_from_the_start_or_later(sf: Sf, state: ConsoleState) -> None:
    strict = SUMMARY.model_copy(update={"require_max_runtime": True}).model_dump(mode="json")
    state.answers["POST /fleets"] = strict
    state.answers["PATCH /fleets/gpu"] = strict
    assert sf("fleet", "create", "gpu", "--require-max-runtime", "--json").json == strict
    done = sf("fleet", "change", "gpu", "--require-max-runtime")
    assert (done.code, done.out) == (0, "fleet gpu takes only jobs with a time limit\n")
    sent = [json.loads(seen.body or b"null")["require_max_runtime"] for seen in state.seen if seen.body]
    assert sent == [True, True]
    state.answers["PATCH /fleets/gpu"] = SUMMARY.model_dump(mode="json")
    assert "with and without" in sf("fleet", "change", "gpu", "--no-require-max-runtime").out
    assert sf("fleet", "change", "gpu").code == 2
