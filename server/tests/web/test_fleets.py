"""The API of fleets and nodes, and what nodes post themselves."""

from http import HTTPStatus
from typing import Any

import pytest
from starlette.testclient import TestClient

from server.tests.fleets.machines import H200, Machine, build_gpu, build_view
from server.tests.web.fleets import headers_of, post_beat, post_epoch, post_join
from server.tests.web.lives import begin
from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest, build_submission, submit
from starforge.client.fleets import FleetConsole
from starforge.client.http import Connection
from starforge.contract.fleets import CreateFleet, DrainNode, MarkLost, MintJoinToken
from starforge.contract.registration import (
    HEARTBEAT_PATH,
    JOIN_PATH,
    Fenced,
    HeartbeatAnswer,
    JoinAnswer,
    Superseded,
)
from starforge.contract.wire import decode, encode
from starforge.errors import NotFound
from starforge_console.accounts.throttle import FAILURES_AT_ONCE
from starforge_console.web.nodes import BEAT_BYTES, JOIN_BYTES

FLEET = {"name": "gpu", "kind": "node"}
STRANGER = "j2k7abcdef-1-abcdef"


@pytest.fixture
def admin(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("root", "admin"))


@pytest.fixture
def member(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("mia"))


def mint(admin: TestClient, **asked: object) -> dict[str, Any]:
    admin.post("/api/v1/fleets", json=FLEET)
    answer = admin.post("/api/v1/fleets/gpu/join-tokens", json=asked)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def add_machine(console: ConsoleUnderTest, admin: TestClient, machine: Machine | None = None) -> Machine:
    """A machine that joined, serves, was heard and is reached."""
    machine = machine or Machine()
    post_join(console.client(), machine, mint(admin)["token"])
    post_epoch(console.client(), machine)
    assert post_beat(console.client(), machine)[0] == HTTPStatus.OK
    console.app.state.fleet_services.directory.note_reach(machine.name, "")
    return machine


def show(client: TestClient, fleet: str = "gpu") -> dict[str, Any]:
    answer = client.get(f"/api/v1/fleets/{fleet}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_fleet_is_made_and_listed_at_once(admin: TestClient, member: TestClient) -> None:
    made = admin.post("/api/v1/fleets", json={**FLEET, "network": "host", "user": "image"})
    assert (made.status_code, made.json()["network"], made.json()["user"]) == (201, "host", "image")
    listed = member.get("/api/v1/fleets").json()["items"]
    assert [(one["name"], one["kind"], one["nodes"]) for one in listed] == [("gpu", "node", 0), ("local", "local", 1)]
    again = admin.post("/api/v1/fleets", json=FLEET)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert admin.post("/api/v1/fleets", json={"name": "No Name"}).status_code == 422
    assert admin.post("/api/v1/fleets", json={"name": "x", "kind": "slurm"}).status_code == 422


def test_a_fleet_is_deleted_once_its_machines_are_gone(console: ConsoleUnderTest, admin: TestClient) -> None:
    add_machine(console, admin)
    refused = admin.delete("/api/v1/fleets/gpu")
    assert (refused.status_code, "1 node" in refused.json()["detail"]) == (409, True)
    admin.post("/api/v1/nodes/gpu7/remove")
    assert admin.delete("/api/v1/fleets/gpu").status_code == 204
    assert admin.get("/api/v1/fleets/gpu").status_code == 404
    assert admin.delete("/api/v1/fleets/gpu").status_code == 404


def test_only_administrators_change_and_everybody_reads(console: ConsoleUnderTest, member: TestClient) -> None:
    posts = {
        "/api/v1/fleets": FLEET,
        "/api/v1/fleets/local/join-tokens": {},
        "/api/v1/nodes/gpu7/drain": {},
        "/api/v1/nodes/gpu7/undrain": None,
        "/api/v1/nodes/gpu7/remove": None,
        "/api/v1/nodes/gpu7/mark-lost": {"confirm": "gpu7"},
        "/api/v1/nodes/gpu7/end-unknown": {"attempt": STRANGER},
        "/api/v1/gpu-series": {"name": "X", "series": "x"},
    }
    for path, body in posts.items():
        assert member.post(path, json=body).status_code == 403, path
        assert console.client().post(path, json=body).status_code == 401, path
    assert member.get("/api/v1/fleets/local/join-tokens").status_code == 403
    assert member.delete("/api/v1/fleets/local/join-tokens/1").status_code == 403
    assert member.delete("/api/v1/gpu-series", params={"name": "X"}).status_code == 403
    assert member.delete("/api/v1/fleets/local").status_code == 403
    for path in ("/api/v1/fleets", "/api/v1/fleets/local", "/api/v1/nodes", "/api/v1/gpu-series"):
        assert member.get(path).status_code == 200, path
        assert console.client().get(path).status_code == 401, path


def test_a_join_token_comes_with_lines_to_paste_and_is_shown_this_once(admin: TestClient) -> None:
    minted = mint(admin, hours=2, uses=3)
    token = minted["token"]
    given = f"FORGE_FLEET=gpu FORGE_JOIN_TOKEN={token}"
    assert minted["line"] == f"curl -fsSL http://127.0.0.1:7080/install.sh | {given} sh"
    assert minted["lines"]["wget"] == f"wget -nv -O- http://127.0.0.1:7080/install.sh | {given} sh"
    assert minted["lines"]["sudo"].endswith(f"| {given} sudo --preserve-env=FORGE_FLEET,FORGE_JOIN_TOKEN sh")
    assert "FORGE_PUBLIC_URL" in minted["doubt"]
    assert "starforge-console wheelhouse add" in minted["doubt"]
    listed = admin.get("/api/v1/fleets/gpu/join-tokens")
    assert token not in listed.text
    (kept,) = listed.json()["items"]
    assert (kept["id"], kept["uses_left"], kept["created_by"]) == (minted["id"], 3, "root")
    assert admin.delete(f"/api/v1/fleets/gpu/join-tokens/{minted['id']}").status_code == 204
    assert admin.get("/api/v1/fleets/gpu/join-tokens").json()["items"] == []
    assert admin.delete("/api/v1/fleets/gpu/join-tokens/99").status_code == 404
    assert admin.delete("/api/v1/fleets/gpu/join-tokens/99999999999999999999999").status_code == 422


def test_a_machine_joins_without_a_users_token_and_appears_with_what_it_tells(
    console: ConsoleUnderTest, admin: TestClient, member: TestClient
) -> None:
    machine = Machine(view=build_view(build_gpu(0), build_gpu(1, name="NVIDIA X9000"), build_gpu(2)))
    assert post_join(console.client(), machine, mint(admin)["token"]).node == "gpu7"
    (joining,) = show(member)["nodes"]
    assert (joining["status"], joining["gpus"]) == ("joining", [])
    assert joining["joined_from"] == "testclient"
    post_epoch(console.client(), machine)
    status, body = post_beat(console.client(), machine)
    assert status == 200
    assert not decode(body, HeartbeatAnswer).reachable
    assert show(member)["nodes"][0]["status"] == "joining"
    directory = console.app.state.fleet_services.directory
    directory.note_reach("gpu7", "connection refused")
    unreached = show(member)["nodes"][0]
    assert (unreached["status"], unreached["why"]) == ("unreachable", "unreachable from console: connection refused")
    directory.note_reach("gpu7", "")
    assert decode(post_beat(console.client(), machine)[1], HeartbeatAnswer).reachable
    detail = show(member)
    (node,) = detail["nodes"]
    assert (node["advertise"], node["version"], node["epoch"]) == ("10.0.0.7:7070", "0.1.0", 1)
    assert [gpu["series"] for gpu in node["gpus"]] == ["h200", None, "h200"]
    assert detail["unknown_gpus"] == ["NVIDIA X9000"]
    assert [one["name"] for one in member.get("/api/v1/nodes").json()["items"]] == ["gpu7", "here"]


def test_a_name_that_an_administrator_adds_counts_at_once(console: ConsoleUnderTest, admin: TestClient) -> None:
    add_machine(console, admin, Machine(view=build_view(build_gpu(0, name="NVIDIA X9000"))))
    added = admin.post("/api/v1/gpu-series", json={"name": "NVIDIA X9000", "series": "x9000"})
    assert (added.status_code, added.json()["added_by"]) == (201, "root")
    detail = show(admin)
    assert (detail["unknown_gpus"], detail["nodes"][0]["gpus"][0]["series"]) == ([], "x9000")
    assert [one["name"] for one in admin.get("/api/v1/gpu-series").json()["items"]] == ["NVIDIA X9000"]
    assert admin.post("/api/v1/gpu-series", json={"name": H200, "series": "h100"}).status_code == 409
    assert admin.delete("/api/v1/gpu-series", params={"name": "nvidia x9000"}).status_code == 204
    assert show(admin)["unknown_gpus"] == ["NVIDIA X9000"]


def test_who_holds_a_gpu_is_shown_and_what_nobody_knows_is_listed(console: ConsoleUnderTest, admin: TestClient) -> None:
    machine = add_machine(console, admin)
    machine.view = build_view(build_gpu(0, attempt=STRANGER), build_gpu(1))
    machine.attempts = {STRANGER: "RUNNING"}
    post_beat(console.client(), machine)
    detail = show(admin)
    (node,) = detail["nodes"]
    stranger = {"attempt": STRANGER, "phase": "RUNNING", "job": None, "name": None, "user": None}
    assert node["gpus"][0]["holder"] == stranger
    assert detail["fleet"]["gpus"] == {"free": 1, "held": 1}
    assert detail["unknown_attempts"] == [STRANGER]
    machine.attempts = {STRANGER: "EXITED"}
    post_beat(console.client(), machine)
    assert show(admin)["unknown_attempts"] == []


def test_a_silent_node_is_away_and_its_gpus_are_blocked(console: ConsoleUnderTest, admin: TestClient) -> None:
    add_machine(console, admin)
    (node,) = show(admin)["nodes"]
    assert (node["status"], node["heard_s"] < 30) == ("ready", True)
    console.clock.ahead_s += 31
    assert show(admin)["nodes"][0]["status"] == "away"
    assert "no heartbeat for 31 s" in show(admin)["nodes"][0]["why"]


def test_a_node_is_drained_marked_lost_fenced_and_removed(console: ConsoleUnderTest, admin: TestClient) -> None:
    machine = add_machine(console, admin)
    drained = admin.post("/api/v1/nodes/gpu7/drain", json={"why": "a fan is broken"})
    assert (drained.status_code, drained.json()["state"]) == (200, "draining")
    assert (show(admin)["nodes"][0]["status"], show(admin)["nodes"][0]["why"]) == ("draining", "a fan is broken")
    assert show(admin)["fleet"]["gpus"] == {"withheld": 2}
    assert admin.post("/api/v1/nodes/gpu7/undrain").json()["state"] == "active"
    assert show(admin)["fleet"]["gpus"] == {"free": 2}
    assert admin.post("/api/v1/nodes/gpu7/mark-lost", json={"confirm": "gpu8"}).status_code == 422
    lost = admin.post("/api/v1/nodes/gpu7/mark-lost", json={"confirm": "gpu7"})
    assert show(admin)["fleet"]["gpus"] == {"blocked": 2}
    assert (lost.json()["state"], lost.json()["fence"], lost.json()["jobs"]) == ("lost", 1, [])
    assert show(admin)["nodes"][0]["status"] == "lost"
    status, body = post_beat(console.client(), machine)
    assert (status, decode(body, Fenced)) == (409, Fenced(fence=1, remove=()))
    assert admin.post("/api/v1/nodes/gpu7/remove").json()["state"] == "removed"
    assert show(admin)["nodes"] == []
    assert admin.post("/api/v1/nodes/gpu7/drain", json={}).status_code == 404


def test_a_drain_with_pause_asks_the_jobs_of_that_machine(console: ConsoleUnderTest, admin: TestClient) -> None:
    add_machine(console, admin)
    headers = console.add_user("lea")
    there, elsewhere = submit(console, headers), submit(console, headers)
    begin(console, there, node="gpu7")
    begin(console, elsewhere)
    drained = admin.post("/api/v1/nodes/gpu7/drain", json={"why": "a fan", "pause": True}).json()
    assert (drained["state"], drained["jobs"]) == ("draining", [there])
    assert admin.post("/api/v1/nodes/gpu7/drain", json={"pause": True}).json()["jobs"] == []
    assert admin.get(f"/api/v1/jobs/{there}").json()["job"]["desired"] == "pause"
    assert admin.get(f"/api/v1/jobs/{elsewhere}").json()["job"]["desired"] == "run"


def test_a_second_daemon_is_answered_superseded(console: ConsoleUnderTest, admin: TestClient) -> None:
    first = add_machine(console, admin)
    second = first.copy()
    assert post_epoch(console.client(), second) == 2
    status, body = post_beat(console.client(), first)
    assert (status, decode(body, Superseded)) == (409, Superseded(superseded_by=2))
    assert show(admin)["nodes"][0]["status"] == "superseded"


def test_a_replayed_forged_or_unsigned_heartbeat_is_refused_in_words(
    console: ConsoleUnderTest, admin: TestClient
) -> None:
    machine = add_machine(console, admin)
    client, path = console.client(), HEARTBEAT_PATH.format(node="gpu7")
    signed = machine.build_beat()
    assert post_beat(client, machine, signed)[0] == 200
    replay = client.post(path, content=signed.body, headers=headers_of(signed))
    assert (replay.status_code, replay.headers["content-type"]) == (403, "application/problem+json")
    assert "not newer" in replay.json()["title"]
    forged = machine.build_beat()
    changed = forged.body.replace(b"boot-1", b"boot-2")
    answer = client.post(path, content=changed, headers=headers_of(forged))
    assert (answer.status_code, answer.json()["code"]) == (401, "node_signature_refused")
    for headers in ({}, {**headers_of(forged), "forge-counter": "-1"}, {**headers_of(forged), "forge-signature": "?"}):
        assert client.post(path, content=forged.body, headers=headers).status_code == 422
    assert client.post(HEARTBEAT_PATH.format(node="nobody"), content=b"x").status_code == 404


def test_bodies_of_nodes_are_bounded_and_must_be_messages(console: ConsoleUnderTest, admin: TestClient) -> None:
    machine = add_machine(console, admin)
    client = console.client()
    assert client.post(JOIN_PATH, content=b"x" * (JOIN_BYTES + 1)).status_code == 413
    signed = machine.build_beat()
    path = HEARTBEAT_PATH.format(node="gpu7")
    assert client.post(path, content=b"x" * (BEAT_BYTES + 1), headers=headers_of(signed)).status_code == 413
    for body in (b"", b"{", b"[]", b'{"wire": 99, "body": {}}', b'{"wire": 1, "body": {"token": 3}}'):
        answer = client.post(JOIN_PATH, content=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "spec_invalid")


def test_whoever_tries_tokens_is_slowed_down_and_a_good_one_is_let_in_beside_them_and_never_logged(
    console: ConsoleUnderTest, admin: TestClient, capfd: pytest.CaptureFixture[str]
) -> None:
    token = mint(admin)["token"]
    client = console.client()
    bad = encode(Machine().build_join("sfj_guess"))
    answers = [client.post(JOIN_PATH, content=bad) for _ in range(2 * FAILURES_AT_ONCE)]
    assert {answer.status_code for answer in answers[:FAILURES_AT_ONCE]} == {403}
    assert "Retry-After" in next(answer for answer in answers if answer.status_code == 429).headers
    assert decode(client.post(JOIN_PATH, content=encode(Machine().build_join(token))).content, JoinAnswer).node
    printed = capfd.readouterr()
    assert token not in printed.out + printed.err


def test_an_unknown_container_is_ended_only_where_it_is_told_of(console: ConsoleUnderTest, admin: TestClient) -> None:
    add_machine(console, admin)
    path = "/api/v1/nodes/gpu7/end-unknown"
    assert admin.post(path, json={"attempt": STRANGER}).status_code == 404
    assert admin.post(path, json={"attempt": "x; rm -rf"}).status_code == 422


def test_jobs_of_the_local_fleet_are_shown_as_holders_too(console: ConsoleUnderTest, member: TestClient) -> None:
    headers = console.add_user("lea")
    submit(console, headers)
    (node,) = show(member, "local")["nodes"]
    assert (node["name"], node["status"], node["advertise"], node["heard_s"]) == ("here", "ready", None, None)
    assert len(node["gpus"]) == 2


def test_the_client_of_sf_speaks_this_api(console: ConsoleUnderTest) -> None:
    headers = console.add_user("root", "admin")
    with serving(console) as served:
        token = headers["Authorization"].removeprefix("Bearer ")
        with Connection(f"http://127.0.0.1:{served.ports.api_port}", token) as connection:
            client = FleetConsole(connection)
            assert client.create_fleet(CreateFleet(name="gpu")).kind == "node"
            assert [fleet.name for fleet in client.fleets().items] == ["gpu", "local"]
            minted = client.mint_join_token("gpu", MintJoinToken(hours=1, uses=1))
            with served.client() as machines:
                post_join(machines, Machine(), minted.token)
            assert [node.status for node in client.fleet("gpu").nodes] == ["joining"]
            assert [node.name for node in client.nodes().items] == ["gpu7", "here"]
            assert client.drain("gpu7", DrainNode(why="a fan")).state == "draining"
            assert client.undrain("gpu7").state == "active"
            assert client.mark_lost("gpu7", MarkLost(confirm="gpu7")).state == "lost"
            assert client.remove_node("gpu7").state == "removed"
            with pytest.raises(NotFound, match="was removed"):
                client.drain("gpu7", DrainNode())


def test_a_fleet_that_requires_a_time_limit_is_made_and_changed(
    console: ConsoleUnderTest, admin: TestClient, member: TestClient
) -> None:
    made = admin.post("/api/v1/fleets", json={**FLEET, "require_max_runtime": True})
    assert (made.status_code, made.json()["require_max_runtime"]) == (201, True)
    submission = build_submission(placement={"fleet": "gpu"})
    console.keep_workspace()
    refused = member.post("/api/v1/jobs", json=submission)
    assert (refused.status_code, refused.json()["refusals"][0]["code"]) == (422, "max_runtime_required")
    assert member.patch("/api/v1/fleets/gpu", json={"require_max_runtime": False}).status_code == 403
    changed = admin.patch("/api/v1/fleets/gpu", json={"require_max_runtime": False})
    assert (changed.status_code, changed.json()["require_max_runtime"]) == (200, False)
    assert member.post("/api/v1/jobs", json=submission).status_code == 201
    assert admin.patch("/api/v1/fleets/none", json={"require_max_runtime": True}).status_code == 404
