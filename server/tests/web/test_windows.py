"""Windows over the API: set, listed and removed by administrators, read by whom they may bind."""

import pytest
from starlette.testclient import TestClient

from server.tests.web.support import ConsoleUnderTest

FLEET = "local"

NIGHTS = {"zone": "Europe/Berlin", "open": ["mon-fri 20:00-08:00", "sat,sun 00:00-24:00"], "without": ["2026-12-24"]}
ALWAYS = {"zone": "UTC", "open": ["mon-sun 00:00-24:00"]}


@pytest.fixture
def root(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("root", "admin"))


def test_a_window_is_set_shown_replaced_and_removed(root: TestClient) -> None:
    place = f"/api/v1/admin/windows/fleet/{FLEET}"
    told = root.put(place, json=NIGHTS)
    assert told.status_code == 200, told.text
    window = told.json()
    assert {name: window[name] for name in ("kind", "name", "zone", "open", "without", "goes_on", "set_by")} == {
        "kind": "fleet",
        "name": FLEET,
        "zone": "Europe/Berlin",
        "open": ["mon-fri 20:00-08:00", "sat,sun 00:00-24:00"],
        "without": ["2026-12-24"],
        "goes_on": True,
        "set_by": "root",
    }
    assert root.get("/api/v1/admin/windows").json()["items"] == [window]
    replaced = root.put(place, json={**ALWAYS, "goes_on": False}).json()
    assert (replaced["goes_on"], replaced["is_open"], replaced["changes_at"]) == (False, True, None)
    assert root.get("/api/v1/admin/windows").json()["items"] == [replaced]
    assert root.delete(place).status_code == 204
    missing = root.delete(place)
    assert (missing.status_code, f"fleet {FLEET} has no window" in missing.text) == (404, True)


def test_users_see_windows_of_fleets_and_profiles_and_of_their_own_team(
    console: ConsoleUnderTest, root: TestClient
) -> None:
    ann = console.client(console.add_user("ann"))
    for place in (f"fleet/{FLEET}", "profile/h200", "team/vision", "team/speech"):
        assert root.put(f"/api/v1/admin/windows/{place}", json=NIGHTS).status_code == 200
    root.put("/api/v1/admin/users/ann/team", json={"team": "vision"})

    def names(client: TestClient) -> list[str]:
        return [f"{one['kind']} {one['name']}" for one in client.get("/api/v1/windows").json()["windows"]]

    assert names(ann) == [f"fleet {FLEET}", "team vision", "profile h200"]
    assert names(root) == [f"fleet {FLEET}", "team speech", "team vision", "profile h200"]


def test_the_next_edges_come_in_order_with_the_local_time(console: ConsoleUnderTest, root: TestClient) -> None:
    ann = console.client(console.add_user("ann"))
    root.put(f"/api/v1/admin/windows/fleet/{FLEET}", json={"zone": "Asia/Kolkata", "open": ["mon-sun 08:00-20:00"]})
    root.put("/api/v1/admin/windows/profile/cpu", json={"zone": "UTC", "open": ["mon-sun 08:00-20:00"]})
    told = ann.get("/api/v1/windows").json()
    edges = told["edges"]
    assert len(edges) == 10
    assert [edge["at"] for edge in edges] == sorted(edge["at"] for edge in edges)
    assert {(edge["name"], edge["local"][-5:], edge["edge"]) for edge in edges} == {
        (name, at, edge) for name in (FLEET, "cpu") for at, edge in (("08:00", "opens"), ("20:00", "closes"))
    }
    for window in told["windows"]:
        first = next(edge for edge in edges if edge["name"] == window["name"])
        assert (window["changes_at"], window["is_open"]) == (first["at"], first["edge"] == "closes")
    assert ann.get("/api/v1/windows?edges=3").json()["edges"] == edges[:3]
    assert ann.get("/api/v1/windows?edges=101").status_code == 422


@pytest.mark.parametrize(
    ("place", "body", "refusal"),
    [
        ("fleet/nowhere", NIGHTS, (404, "there is no fleet 'nowhere'")),
        ("team/No%20Team", NIGHTS, (422, "cannot be the name of a team")),
        ("profile/h2000", NIGHTS, (422, "there is no profile 'h2000'")),
        ("user/ann", NIGHTS, (422, "window_kind")),
        ("team/vision", {"zone": "Europe/Berln", "open": ["mon 08:00-20:00"]}, (422, "is no time zone")),
        ("team/vision", {"zone": "UTC", "open": ["mon 8:00-20:00"]}, (422, "'8:00' at column 5")),
        ("team/vision", {"zone": "UTC", "open": []}, (422, "open")),
        ("team/vision", {**NIGHTS, "without": ["24.12."]}, (422, "'24.12.' is no date")),
        ("team/vision", {**NIGHTS, "close": 1}, (422, "close")),
    ],
)
def test_what_is_no_window_is_refused_with_the_value(
    root: TestClient, place: str, body: dict[str, object], refusal: tuple[int, str]
) -> None:
    answer = root.put(f"/api/v1/admin/windows/{place}", json=body)
    status, says = refusal
    assert (answer.status_code, says in answer.text) == (status, True), answer.text
    assert root.get("/api/v1/admin/windows").json()["items"] == []


def test_members_set_and_remove_no_windows(console: ConsoleUnderTest, root: TestClient) -> None:
    ann = console.client(console.add_user("ann"))
    root.put("/api/v1/admin/windows/team/vision", json=NIGHTS)
    answers = [
        ann.get("/api/v1/admin/windows"),
        ann.put("/api/v1/admin/windows/team/vision", json=ALWAYS),
        ann.delete("/api/v1/admin/windows/team/vision"),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert root.get("/api/v1/admin/windows").json()["items"][0]["zone"] == "Europe/Berlin"
