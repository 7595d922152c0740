"""Roles over the API: what each may do, what a change of role does at once, and that somebody always administrates."""

import pytest
from starlette.testclient import TestClient

from server.tests.web.support import ConsoleUnderTest, submit

USERS = "/api/v1/admin/users"
FLEET = {"name": "gpu", "kind": "node"}


@pytest.fixture
def root(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("root", "admin"))


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        ("viewer", (200, 403, 403, 403)),
        ("member", (200, 422, 403, 403)),
        ("operator", (200, 422, 204, 403)),
        ("admin", (200, 422, 204, 200)),
    ],
)
def test_each_role_may_do_what_its_name_says(
    console: ConsoleUnderTest, role: str, statuses: tuple[int, int, int, int]
) -> None:
    reads, submits, operates, administers = statuses
    client = console.client(console.add_user("ann", role))
    assert client.get("/api/v1/jobs").status_code == reads
    assert client.post("/api/v1/jobs", json={}).status_code == submits
    assert client.delete("/api/v1/admin/gc/hold").status_code == operates
    for path in ("users", "quotas", "registries", "audit"):
        assert client.get(f"/api/v1/admin/{path}").status_code == administers


def test_operators_look_after_machines_and_everybodys_jobs_and_touch_no_user(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann"))
    op = console.client(console.add_user("op", "operator"))
    assert op.post("/api/v1/fleets", json=FLEET).status_code == 201
    assert op.put(f"/api/v1/admin/queue/{job}", json={"to": "last"}).status_code == 204
    assert op.post(f"/api/v1/jobs/{job}/stop", json={}).status_code < 300
    told = op.put(f"{USERS}/ann/role", json={"role": "admin"})
    assert (told.status_code, told.json()["detail"]) == (403, "it is for administrators, and op is operator")


def test_an_operators_token_without_the_scope_operates_nothing(console: ConsoleUnderTest) -> None:
    op = console.client(console.add_user("op", "operator", scopes=["read", "submit"]))
    assert op.post("/api/v1/fleets", json=FLEET).status_code == 403


def test_whoever_is_no_administrator_any_more_is_none_with_the_tokens_of_before(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    boss = console.client(console.add_user("boss", "admin"))
    assert boss.get(USERS).status_code == 200
    assert root.put(f"{USERS}/boss/role", json={"role": "viewer"}).json()["role"] == "viewer"
    assert boss.get(USERS).status_code == 403
    assert boss.post("/api/v1/jobs", json={}).status_code == 403
    assert boss.get("/api/v1/whoami").json()["scopes"] == ["read"]
    assert root.put(f"{USERS}/boss/role", json={"role": "admin"}).status_code == 200
    assert boss.get(USERS).status_code == 200


def test_whoever_is_deactivated_has_no_token_left_and_none_comes_back(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    ann = console.client(console.add_user("ann"))
    assert ann.get("/api/v1/whoami").status_code == 200
    assert root.put(f"{USERS}/ann/active", json={"active": False}).json()["active"] is False
    assert ann.get("/api/v1/whoami").status_code == 401
    assert root.put(f"{USERS}/ann/active", json={"active": True}).json()["active"] is True
    assert ann.get("/api/v1/whoami").status_code == 401


@pytest.mark.parametrize(("part", "value"), [("role", "operator"), ("active", False)])
def test_the_last_administrator_stays_one(
    console: ConsoleUnderTest, root: TestClient, part: str, value: object
) -> None:
    console.add_user("ann")
    refused = root.put(f"{USERS}/root/{part}", json={part: value})
    assert (refused.status_code, "no other active administrator" in refused.json()["detail"]) == (409, True)
    console.add_user("boss", "admin")
    assert root.put(f"{USERS}/root/{part}", json={part: value}).status_code == 200


def test_a_user_is_added_once_and_with_a_name_that_can_be_one(console: ConsoleUnderTest, root: TestClient) -> None:
    made = root.post(USERS, json={"name": "eve"})
    assert (made.status_code, made.json()["role"]) == (201, "member")
    assert root.post(USERS, json={"name": "eve"}).status_code == 409
    assert root.post(USERS, json={"name": "No Name"}).status_code == 422
    assert root.post(USERS, json={"name": "x", "role": "king"}).status_code == 422
    assert "signin" not in made.text
    assert console.client().get("/api/v1/whoami").status_code == 401


def test_a_role_that_this_version_does_not_know_may_do_nothing(console: ConsoleUnderTest) -> None:
    assert (
        console.client(console.add_user("ann", "emperor", scopes=["read", "submit", "admin"]))
        .get("/api/v1/jobs")
        .status_code
        == 403
    )
