"""Users, teams and limits over the API: for administrators alone, and heard by admission and by the queue at once."""

import pytest
from starlette.testclient import TestClient

from server.tests.web.lives import begin
from server.tests.web.support import ConsoleUnderTest, submit


@pytest.fixture
def root(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("root", "admin"))


def test_every_user_is_listed_with_the_team_and_what_their_jobs_hold(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    ann = console.add_user("ann")
    job = submit(console, ann)
    begin(console, job)
    gpus = root.get(f"/api/v1/jobs/{job}").json()["job"]["gpus"]
    assert root.put("/api/v1/admin/users/ann/team", json={"team": "vision"}).json()["team"] == "vision"
    assert root.get("/api/v1/admin/users").json()["items"] == [
        {"name": "root", "role": "admin", "active": True, "team": None, "held": {"gpus": 0, "jobs": 0}},
        {"name": "ann", "role": "member", "active": True, "team": "vision", "held": {"gpus": gpus, "jobs": 1}},
    ]
    assert root.put("/api/v1/admin/users/ann/team", json={"team": None}).json()["team"] is None


def test_a_limit_is_set_shown_to_whom_it_binds_replaced_and_removed(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    ann = console.client(console.add_user("ann"))
    told = root.put("/api/v1/admin/quotas/user/ann", json={"gpus": 4, "series": ["h100-sxm", "l40s"]})
    assert told.status_code == 200, told.text
    assert told.json() == {
        "kind": "user",
        "name": "ann",
        "gpus": 4,
        "jobs": None,
        "series": ["h100-sxm", "l40s"],
        "gpu_hours": None,
        "storage_gib": None,
        "profiles": None,
        "held": {"gpus": 0, "jobs": 0},
        "gpu_seconds": 0,
        "stored_bytes": 0,
        "runs": [],
        "other_runs": None,
    }
    assert (
        ann.get("/api/v1/quotas").json()["items"] == [told.json()] == root.get("/api/v1/admin/quotas").json()["items"]
    )
    assert root.put("/api/v1/admin/quotas/user/ann", json={"gpu_hours": 2}).json()["gpu_hours"] == 2
    more = root.put("/api/v1/admin/quotas/user/ann", json={"storage_gib": 5, "profiles": ["cpu", "any"]}).json()
    assert (more["storage_gib"], more["profiles"]) == (5, ["any", "cpu"])
    assert root.put("/api/v1/admin/quotas/user/ann", json={"profiles": ["cpus"]}).status_code == 422
    assert root.put("/api/v1/admin/quotas/user/ann", json={"jobs": 2}).json()["gpus"] is None
    assert root.delete("/api/v1/admin/quotas/user/ann").status_code == 204
    assert root.delete("/api/v1/admin/quotas/user/ann").status_code == 404
    assert root.get("/api/v1/admin/quotas").json()["items"] == []


@pytest.mark.parametrize(
    ("path", "body", "refusal"),
    [
        ("users/anne/team", {"team": "vision"}, (404, "there is no user 'anne'")),
        ("users/ann/team", {"team": "No Team"}, (422, "cannot be the name of a team")),
        ("quotas/user/bob", {"gpus": 1}, (404, "there is no user 'bob'")),
        ("quotas/team/A%20b", {"gpus": 1}, (422, "cannot be the name of a team")),
        ("quotas/user/ann", {"series": ["h1000"]}, (422, "'h1000' is no series of GPUs")),
        ("quotas/user/ann", {"gpus": -1}, (422, "gpus")),
        ("quotas/user/ann", {"gpu": 1}, (422, "gpu")),
    ],
)
def test_what_cannot_be_is_refused_with_the_value(
    console: ConsoleUnderTest, root: TestClient, path: str, body: dict[str, object], refusal: tuple[int, str]
) -> None:
    console.add_user("ann")
    answer = root.put(f"/api/v1/admin/{path}", json=body)
    status, says = refusal
    assert (answer.status_code, says in answer.text) == (status, True), answer.text
    assert root.get("/api/v1/admin/quotas").json()["items"] == []


def test_members_neither_see_nor_change_users_and_limits(console: ConsoleUnderTest) -> None:
    ann = console.client(console.add_user("ann"))
    answers = [
        ann.get("/api/v1/admin/users"),
        ann.get("/api/v1/admin/quotas"),
        ann.put("/api/v1/admin/users/ann/team", json={"team": "vision"}),
        ann.put("/api/v1/admin/quotas/user/ann", json={"gpus": 99}),
        ann.delete("/api/v1/admin/quotas/user/ann"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 5
