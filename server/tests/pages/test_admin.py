"""The administration: each form does what the API does, says what is wrong in its place, and is for administrators."""

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest
from starforge_console.web.pages.admin import ADMINISTRATORS

WORD = "open-sesame"


@pytest.fixture
def admin(console: ConsoleUnderTest) -> TestClient:
    return sign_in(console, console.add_user("root", "admin"))


@pytest.fixture
def api(console: ConsoleUnderTest) -> TestClient:
    return console.client(console.add_user("boss", "admin"))


def send(client: TestClient, path: str, **fields: str) -> tuple[int, str]:
    answer = client.post(path, data={"form_key": form_key(client.get("/admin").text), **fields})
    return answer.status_code, answer.text


def test_every_view_opens_for_an_administrator_and_an_unknown_one_is_the_first(admin: TestClient) -> None:
    for view in ADMINISTRATORS:
        page = admin.get("/admin", params={"view": view})
        assert (page.status_code, f'href="/admin?view={view}" aria-current="page"' in page.text) == (200, True)
    assert 'href="/admin?view=people" aria-current="page"' in admin.get("/admin?view=nothing").text


def test_members_are_refused_and_see_no_way_there(console: ConsoleUnderTest) -> None:
    ann = sign_in(console, console.add_user("ann"))
    assert 'href="/admin"' not in ann.get("/overview").text
    assert ann.get("/admin").status_code == 403
    key = form_key(ann.get("/jobs").text)
    for path in ("team", "quota", "window", "registry", "gpu-series", "maintenance", "retention"):
        assert ann.post(f"/admin/{path}", data={"form_key": key, "user": "ann", "team": "x"}).status_code == 403


def test_a_form_without_the_sessions_key_changes_nothing(admin: TestClient, api: TestClient) -> None:
    assert admin.post("/admin/team", data={"user": "root", "team": "vision"}).status_code == 403
    assert api.get("/api/v1/admin/users").json()["items"][0]["team"] is None


def test_a_users_team_is_set_and_taken_away(admin: TestClient, api: TestClient) -> None:
    status, page = send(admin, "/admin/team", user="root", team="vision")
    assert (status, "The team is set." in page) == (200, True)
    assert api.get("/api/v1/admin/users").json()["items"][0]["team"] == "vision"
    send(admin, "/admin/team", user="root", team="")
    assert api.get("/api/v1/admin/users").json()["items"][0]["team"] is None


def test_a_limit_is_set_and_removed(admin: TestClient, api: TestClient) -> None:
    send(
        admin,
        "/admin/quota",
        kind="team",
        name="vision",
        gpus="8",
        jobs="",
        gpu_hours="12",
        storage_gib="500",
        series="h100-sxm, l40s",
        profiles="cpu, l40s",
    )
    (told,) = api.get("/api/v1/admin/quotas").json()["items"]
    assert (told["kind"], told["name"], told["gpus"], told["jobs"]) == ("team", "vision", 8, None)
    assert (told["series"], told["gpu_hours"]) == (["h100-sxm", "l40s"], 12)
    assert (told["profiles"], told["storage_gib"]) == (["cpu", "l40s"], 500)
    page = admin.get("/admin").text
    assert "0.00 / 12" in page
    assert "0.0 / 500&nbsp;GiB" in page
    assert "Profiles <code>cpu, l40s</code>" in page
    status, page = send(admin, "/admin/quota", kind="team", name="vision", do="remove")
    assert (status, "The limit is gone." in page) == (200, True)
    assert api.get("/api/v1/admin/quotas").json()["items"] == []


def test_a_window_is_set_shown_and_removed(admin: TestClient, api: TestClient) -> None:
    fields = {"kind": "team", "name": "vision", "zone": "Europe/Berlin", "without": "2026-12-24\r\n"}
    spans = "mon-fri 20:00-08:00\r\n\r\n sat,sun 00:00-24:00"
    status, page = send(admin, "/admin/window", **fields, open=spans, goes_on="1")
    assert (status, "The window holds from now on." in page) == (200, True)
    assert all(text in page for text in ("team vision", "sat,sun 00:00-24:00", "except on 1 date"))
    (told,) = api.get("/api/v1/admin/windows").json()["items"]
    assert (told["open"], told["without"], told["goes_on"]) == (
        ["mon-fri 20:00-08:00", "sat,sun 00:00-24:00"],
        ["2026-12-24"],
        True,
    )
    _, page = send(admin, "/admin/window", **fields, open="mon-sun 00:00-24:00", do="set")
    assert "what it stops stays stopped" in page
    status, page = send(admin, "/admin/window", kind="team", name="vision", do="remove")
    assert (status, "The window is gone." in page) == (200, True)
    assert api.get("/api/v1/admin/windows").json()["items"] == []


@pytest.mark.parametrize(
    ("path", "fields", "refusal"),
    [
        ("window", {"kind": "user", "name": "root"}, (422, "has no windows")),
        ("window", {"kind": "team", "name": "v", "zone": "UTC", "open": "mon 8-20"}, (422, "is no time of day")),
        ("window", {"kind": "team", "name": "v", "do": "remove"}, (404, "has no window")),
        ("team", {"user": "root", "team": "No Team"}, (422, "cannot be the name of a team")),
        ("team", {"user": "nobody", "team": "x"}, (404, "there is no user")),
        ("quota", {"kind": "user", "name": "root", "gpus": "many"}, (422, "is no number of gpus")),
        ("quota", {"kind": "user", "name": "root", "gpu_hours": "1.5"}, (422, "is no number of gpu-hours")),
        ("quota", {"kind": "user", "name": "root", "storage_gib": "1TB"}, (422, "is no number of storage-gib")),
        ("quota", {"kind": "user", "name": "root", "profiles": "cpus"}, (422, "there is no profile")),
        ("quota", {"kind": "user", "name": "root"}, (422, "no limit is given")),
        ("quota", {"kind": "user", "name": "root", "series": "h1000"}, (422, "is no series of GPUs")),
        ("quota", {"kind": "user", "name": "root", "do": "remove"}, (404, "has no quota")),
        ("registry", {"registry": "no registry", "username": "a", "password": "b"}, (422, "registry")),
        ("gpu-series", {"name": "GPU X", "series": "No Series"}, (422, "cannot be a series")),
        ("retention", {"do": "hold", "hours": "-1"}, (422, "nothing can be held")),
    ],
)
def test_what_cannot_be_is_said_on_the_page_with_the_value(
    admin: TestClient, path: str, fields: dict[str, str], refusal: tuple[int, str]
) -> None:
    status, page = send(admin, f"/admin/{path}", **fields)
    wanted, says = refusal
    assert (status, says in page) == (wanted, True), page
    assert 'role="alert"' in page


def test_a_login_is_kept_and_forgotten_and_its_password_never_shown(admin: TestClient, api: TestClient) -> None:
    _, page = send(admin, "/admin/registry", registry="registry.test", username="puller", password=WORD)
    assert "registry.test" in page
    assert WORD not in page
    assert [one["username"] for one in api.get("/api/v1/admin/registries").json()["items"]] == ["puller"]
    send(admin, "/admin/registry", registry="registry.test", do="remove")
    assert api.get("/api/v1/admin/registries").json()["items"] == []


def test_a_name_of_a_gpu_gets_its_series_and_is_forgotten(admin: TestClient, api: TestClient) -> None:
    send(admin, "/admin/gpu-series", name="NVIDIA H20-Custom", series="h20")
    assert [one["series"] for one in api.get("/api/v1/gpu-series").json()["items"]] == ["h20"]
    send(admin, "/admin/gpu-series", name="NVIDIA H20-Custom", do="remove")
    assert api.get("/api/v1/gpu-series").json()["items"] == []


def test_the_collector_is_held_released_and_looked_at(admin: TestClient, api: TestClient) -> None:
    _, page = send(admin, "/admin/retention", do="hold", hours="2", why="a backup")
    assert "Nothing is removed until the hold ends." in page
    assert api.get("/api/v1/admin/gc").json()["hold"]["why"] == "a backup"
    send(admin, "/admin/retention", do="hold", hours="3", why="an upgrade")
    longer, hold = api.get("/api/v1/admin/gc").json()["holds"]
    send(admin, "/admin/retention", do="release", hold=longer["id"])
    assert api.get("/api/v1/admin/gc").json()["holds"] == [hold]
    assert "an upgrade" not in admin.get("/admin?view=retention").text
    send(admin, "/admin/retention", do="release")
    assert api.get("/api/v1/admin/gc").json()["hold"] is None
    assert "Nothing may go" in admin.get("/admin?view=retention&plan=1").text
