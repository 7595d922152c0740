"""The audit log over the API: every route of administrators and operators leaves an entry, without any secret."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select
from starlette.testclient import TestClient

from server.tests.web.support import ConsoleUnderTest, submit
from server.tests.web.test_fleets import STRANGER, add_machine, mint
from starforge_console import web
from starforge_console.ledger.audit_table import audit
from starforge_console.web.deps import administrator_of, operator_of

PASSWORD = "hunter2-of-the-registry"  # noqa: S105 - made up for this test
WINDOW = {"zone": "UTC", "open": ["mon-fri 20:00-08:00"]}

Act = Callable[[ConsoleUnderTest, TestClient], None]


@pytest.fixture
def root(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("root", "admin"))


def entries(root: TestClient, **asked: object) -> list[dict[str, Any]]:
    answer = root.get("/api/v1/admin/audit", params={name: str(value) for name, value in asked.items()})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def call(method: str, path: str, body: object = None) -> Act:
    def _call(_console: ConsoleUnderTest, client: TestClient) -> None:
        answer = client.request(method, f"/api/v1{path}", json=body)
        assert answer.status_code < 300, answer.text

    return _call


def after(*before: Act, do: Act) -> tuple[Act, Act]:
    def _prepare(console: ConsoleUnderTest, client: TestClient) -> None:
        for one in before:
            one(console, client)

    return _prepare, do


def with_ann(console: ConsoleUnderTest, _client: TestClient) -> None:
    console.add_user("ann")


def with_machine(console: ConsoleUnderTest, client: TestClient) -> None:
    add_machine(console, client)


def with_stranger(console: ConsoleUnderTest, client: TestClient) -> None:
    machine = add_machine(console, client)
    report = console.app.state.fleet_services.directory.find_report(machine.name)
    report.attempts[STRANGER] = "RUNNING"


def with_token(_console: ConsoleUnderTest, client: TestClient) -> None:
    mint(client)


def end_stranger(console: ConsoleUnderTest, client: TestClient) -> None:
    client.post("/api/v1/nodes/gpu7/end-unknown", json={"attempt": STRANGER})
    assert console.app is not None


def revoke_join_token(_console: ConsoleUnderTest, client: TestClient) -> None:
    (token,) = client.get("/api/v1/fleets/gpu/join-tokens").json()["items"]
    assert client.delete(f"/api/v1/fleets/gpu/join-tokens/{token['id']}").status_code == 204


def move_first(console: ConsoleUnderTest, client: TestClient) -> None:
    job = submit(console, console.add_user("ann"))
    assert client.put(f"/api/v1/admin/queue/{job}", json={"to": "first"}).status_code == 204


GPU_FLEET = call("POST", "/fleets", {"name": "gpu", "kind": "node"})
LIMIT = call("PUT", "/admin/quotas/user/ann", {"gpus": 4})
SERIES = call("POST", "/gpu-series", {"name": "NVIDIA Unheard", "series": "unheard"})
LOGIN = call("PUT", "/admin/registries/registry.test", {"username": "robot", "password": PASSWORD})
SET_WINDOW = call("PUT", "/admin/windows/fleet/local", WINDOW)
HOLD = call("PUT", "/admin/gc/hold", {"hours": 2})
DRAIN = call("POST", "/nodes/gpu7/drain", {})

CASES: dict[tuple[str, str], tuple[str, str, tuple[Act, Act]]] = {
    ("POST", "/fleets"): ("fleet_made", "made fleet gpu of kind node", after(do=GPU_FLEET)),
    ("PATCH", "/fleets/{fleet}"): (
        "fleet_limit_required",
        "let fleet local take only jobs with a time limit",
        after(do=call("PATCH", "/fleets/local", {"require_max_runtime": True})),
    ),
    ("DELETE", "/fleets/{fleet}"): (
        "fleet_deleted",
        "deleted fleet gpu",
        after(GPU_FLEET, do=call("DELETE", "/fleets/gpu")),
    ),
    ("POST", "/fleets/{fleet}/join-tokens"): (
        "join_token_made",
        "made join token 1 of fleet gpu for 10 machines",
        after(GPU_FLEET, do=call("POST", "/fleets/gpu/join-tokens", {})),
    ),
    ("DELETE", "/fleets/{fleet}/join-tokens/{token_id}"): (
        "join_token_revoked",
        "revoked join token 1 of fleet gpu",
        after(with_token, do=revoke_join_token),
    ),
    ("POST", "/nodes/{node}/drain"): ("node_drained", "drained node gpu7", after(with_machine, do=DRAIN)),
    ("POST", "/nodes/{node}/undrain"): (
        "node_undrained",
        "let node gpu7 take jobs again",
        after(with_machine, DRAIN, do=call("POST", "/nodes/gpu7/undrain")),
    ),
    ("POST", "/nodes/{node}/remove"): (
        "node_removed",
        "removed node gpu7",
        after(with_machine, do=call("POST", "/nodes/gpu7/remove")),
    ),
    ("POST", "/nodes/{node}/mark-lost"): (
        "node_lost",
        "marked node gpu7 lost, with its jobs: 0",
        after(with_machine, do=call("POST", "/nodes/gpu7/mark-lost", {"confirm": "gpu7"})),
    ),
    ("POST", "/nodes/{node}/end-unknown"): (
        "unknown_ended",
        f"ended the unknown container {STRANGER} on node gpu7",
        after(with_stranger, do=end_stranger),
    ),
    ("POST", "/gpu-series"): ("series_set", "gave GPUs named NVIDIA Unheard the series unheard", after(do=SERIES)),
    ("DELETE", "/gpu-series"): (
        "series_removed",
        "took the series of GPUs named NVIDIA Unheard away",
        after(SERIES, do=call("DELETE", "/gpu-series?name=NVIDIA%20Unheard")),
    ),
    ("PUT", "/admin/queue/{job_id}"): ("queue_first", "first in the queue", after(do=move_first)),
    ("POST", "/admin/users"): (
        "user_added",
        "added user eve as viewer",
        after(do=call("POST", "/admin/users", {"name": "eve", "role": "viewer"})),
    ),
    ("PUT", "/admin/users/{user}/role"): (
        "user_role",
        "made ann, who was member, operator",
        after(with_ann, do=call("PUT", "/admin/users/ann/role", {"role": "operator"})),
    ),
    ("PUT", "/admin/users/{user}/active"): (
        "user_deactivated",
        "deactivated ann and ended all their tokens and sessions",
        after(with_ann, do=call("PUT", "/admin/users/ann/active", {"active": False})),
    ),
    ("PUT", "/admin/users/{user}/team"): (
        "user_team",
        "put ann into team vision",
        after(with_ann, do=call("PUT", "/admin/users/ann/team", {"team": "vision"})),
    ),
    ("PUT", "/admin/quotas/{kind}/{holder}"): (
        "quota_set",
        "limited user ann: gpus=4",
        after(with_ann, do=LIMIT),
    ),
    ("DELETE", "/admin/quotas/{kind}/{holder}"): (
        "quota_removed",
        "took the limit of user ann away",
        after(with_ann, LIMIT, do=call("DELETE", "/admin/quotas/user/ann")),
    ),
    ("POST", "/admin/gc"): (
        "retention_collected",
        "had the collector remove what is over its time: 0",
        after(do=call("POST", "/admin/gc")),
    ),
    ("PUT", "/admin/gc/hold"): ("retention_held", "held the collector for 2 h", after(do=HOLD)),
    ("DELETE", "/admin/gc/hold"): (
        "retention_released",
        "released the collector",
        after(HOLD, do=call("DELETE", "/admin/gc/hold")),
    ),
    ("PUT", "/admin/registries/{registry}"): (
        "registry_set",
        "set the login at registry.test, as robot",
        after(do=LOGIN),
    ),
    ("DELETE", "/admin/registries/{registry}"): (
        "registry_removed",
        "removed the login at registry.test",
        after(LOGIN, do=call("DELETE", "/admin/registries/registry.test")),
    ),
    ("PUT", "/admin/windows/{window_kind}/{window}"): (
        "window_set",
        "set when fleet local may run: mon-fri 20:00-08:00 (UTC)",
        after(do=SET_WINDOW),
    ),
    ("DELETE", "/admin/windows/{window_kind}/{window}"): (
        "window_removed",
        "let fleet local run at any time",
        after(SET_WINDOW, do=call("DELETE", "/admin/windows/fleet/local")),
    ),
    ("POST", "/admin/maintenance/drain"): (
        "maintenance_begun",
        "began maintenance and paused jobs: 0",
        after(do=call("POST", "/admin/maintenance/drain", {})),
    ),
    ("POST", "/admin/maintenance/resume"): (
        "maintenance_ended",
        "ended maintenance",
        after(call("POST", "/admin/maintenance/drain", {}), do=call("POST", "/admin/maintenance/resume")),
    ),
}


def changing_routes() -> set[tuple[str, str]]:
    """Method and path of every route that asks for an operator or administrator and changes something."""
    found = set()
    for module in pkgutil.iter_modules(web.__path__, f"{web.__name__}."):
        router = getattr(importlib.import_module(module.name), "router", None)
        for route in (one for one in getattr(router, "routes", ()) if isinstance(one, APIRoute)):
            if {one.call for one in route.dependant.dependencies} & {administrator_of, operator_of}:
                found |= {(method, route.path) for method in (route.methods or set()) - {"GET", "HEAD"}}
    return found


def test_every_route_that_administrates_has_a_case_here() -> None:
    assert changing_routes() == set(CASES)


@pytest.mark.parametrize("route", sorted(CASES), ids=lambda route: f"{route[0]} {route[1]}")
def test_whoever_administrates_leaves_an_entry(
    console: ConsoleUnderTest, root: TestClient, route: tuple[str, str]
) -> None:
    act, what, (prepare, do) = CASES[route]
    prepare(console, root)
    before = entries(root)
    do(console, root)
    (entry,) = entries(root)[: len(entries(root)) - len(before)]
    assert (entry["user"], entry["via"], entry["peer"], entry["act"]) == ("root", "api", "testclient", act)
    assert what in entry["what"]
    assert entry["token"] is not None


def test_what_was_refused_is_no_act(console: ConsoleUnderTest, root: TestClient) -> None:
    console.add_user("ann")
    assert root.put("/api/v1/admin/users/anne/team", json={"team": "x"}).status_code == 404
    assert root.put("/api/v1/admin/quotas/user/ann", json={"gpus": -1}).status_code == 422
    assert root.delete("/api/v1/admin/quotas/user/ann").status_code == 404
    assert entries(root) == []


def test_an_act_on_somebody_elses_job_is_told_and_on_ones_own_is_not(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    ann = console.add_user("ann")
    mine, other = submit(console, ann), submit(console, ann)
    assert console.client(ann).post(f"/api/v1/jobs/{mine}/stop", json={}).status_code < 300
    assert entries(root) == []
    assert root.post(f"/api/v1/jobs/{other}/stop", json={}).status_code < 300
    assert root.delete(f"/api/v1/jobs/{other}").status_code == 204
    assert [one["what"] for one in entries(root)] == [f"deleted job {other} of ann", f"stopped job {other} of ann"]


def test_a_machine_that_joins_is_told_with_where_it_came_from(console: ConsoleUnderTest, root: TestClient) -> None:
    add_machine(console, root)
    (entry,) = entries(root, act="node_joined")
    assert (entry["user"], entry["via"]) == ("", "node")
    assert entry["what"] == "let machine gpu7 join fleet gpu with a join token, from testclient"


def test_no_entry_holds_a_secret(console: ConsoleUnderTest, root: TestClient) -> None:
    token = mint(root)["token"]
    LOGIN(console, root)
    root.put("/api/v1/secrets/HF_TOKEN", json={"value": "hf_a-secret-of-mine"})
    rows = repr(console.ledger.read_now(lambda c: c.execute(select(audit)).all()))
    assert "registry.test" in rows
    for secret in (token, PASSWORD, "hf_a-secret-of-mine", root.headers["Authorization"].removeprefix("Bearer ")):
        assert secret not in rows


def test_entries_are_paged_from_the_newest_on_and_found_by_who_and_what(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    console.add_user("ann")
    for team in ("a", "b", "c"):
        root.put("/api/v1/admin/users/ann/team", json={"team": team})
    first = root.get("/api/v1/admin/audit", params={"limit": 2}).json()
    assert [one["values"]["team"] for one in first["items"]] == ["c", "b"]
    rest = root.get("/api/v1/admin/audit", params={"limit": 2, "before": first["next"]}).json()
    assert ([one["values"]["team"] for one in rest["items"]], rest["next"]) == (["a"], None)
    assert len(entries(root, user="root", text="team b")) == 1
    assert entries(root, user="ann") == []
    assert entries(root, since=console.clock.now() + 60) == []


@pytest.mark.parametrize("role", ["viewer", "member", "operator"])
def test_nobody_but_administrators_reads_it(console: ConsoleUnderTest, role: str) -> None:
    assert console.client(console.add_user("eve", role)).get("/api/v1/admin/audit").status_code == 403
