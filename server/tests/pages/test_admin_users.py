import re

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest

TOKEN = re.compile(r"sfp_[A-Za-z0-9_-]{43}")


@pytest.fixture
def admin(console: ConsoleUnderTest) -> TestClient:
    return sign_in(console, console.add_user("root", "admin"))


def send(client: TestClient, path: str, **fields: str) -> tuple[int, str]:
    answer = client.post(path, data={"form_key": form_key(client.get("/account").text), **fields})
    return answer.status_code, answer.text


def test_a_user_is_added_and_signs_in_with_a_link_that_is_shown_once(
    console: ConsoleUnderTest, admin: TestClient
) -> None:
    status, page = send(admin, "/admin/users", name="eve", role="operator")
    assert (status, "The user is added" in page) == (200, True)
    _, page = send(admin, "/admin/users/eve/link")
    (link,) = re.findall(r"http://127\.0\.0\.1:7080(/signin/[A-Za-z0-9_-]{43})", page)
    assert link not in admin.get("/admin/users/eve").text
    eve = console.client()
    shown = eve.post(link, data={"form_key": form_key(eve.get(link).text)}).text
    assert TOKEN.search(shown)
    assert 'href="/admin"' in eve.get("/overview").text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "No Name", "role": "member"}, "cannot be the name of a user"),
        ({"name": "root", "role": "member"}, "there is a user"),
        ({"name": "x", "role": "king"}, "there is no role"),
    ],
)
def test_what_cannot_be_added_is_said(admin: TestClient, fields: dict[str, str], says: str) -> None:
    status, page = send(admin, "/admin/users", **fields)
    assert (status in {409, 422}, says in page) == (True, True)


def test_a_role_is_given_and_counts_at_once(console: ConsoleUnderTest, admin: TestClient) -> None:
    ann = sign_in(console, console.add_user("ann"))
    assert ann.get("/admin").status_code == 403
    console.add_user("op", "operator")
    status, page = send(admin, "/admin/users/ann/role", role="viewer")
    assert (status, "The role counts from now on." in page) == (200, True)
    assert ann.get("/new-fleet").status_code == 403
    assert "there is no role" in send(admin, "/admin/users/ann/role", role="king")[1]
    assert "no other active administrator" in send(admin, "/admin/users/root/role", role="viewer")[1]


def test_whoever_is_deactivated_is_signed_out_at_once(console: ConsoleUnderTest, admin: TestClient) -> None:
    ann = sign_in(console, console.add_user("ann"))
    assert "all tokens and sessions have ended" in send(admin, "/admin/users/ann/active", do="deactivate")[1]
    assert ann.get("/jobs").url.path == "/signin"
    status, page = send(admin, "/admin/users/ann/link")
    assert (status, "may not sign in" in page) == (409, True)
    assert "may sign in again" in send(admin, "/admin/users/ann/active", do="activate")[1]


def test_operators_see_their_views_alone(console: ConsoleUnderTest) -> None:
    op = sign_in(console, console.add_user("op", "operator"))
    page = op.get("/admin").text
    assert 'href="/admin?view=windows" aria-current="page"' in page
    for view in ("people", "registries", "audit"):
        assert f"view={view}" not in page
        assert 'href="/admin?view=windows" aria-current="page"' in op.get(f"/admin?view={view}").text
    assert op.get("/admin/users/op").status_code == 403
    key = form_key(page)
    for path in ("users", "users/op/role", "users/op/active", "users/op/link", "team", "quota", "registry"):
        answer = op.post(f"/admin/{path}", data={"form_key": key, "role": "admin", "name": "x", "do": "deactivate"})
        assert answer.status_code == 403, path


def test_an_unknown_user_is_not_found(admin: TestClient) -> None:
    assert admin.get("/admin/users/nobody").status_code == 404


def test_the_audit_log_tells_who_did_what_in_both_languages(admin: TestClient) -> None:
    send(admin, "/admin/users", name="eve", role="viewer")
    page = admin.get("/admin?view=audit").text
    assert "added user eve as viewer" in page
    assert "signed in with a personal token" in page
    assert "testclient" in page
    admin.cookies.set("starforge_language", "zh-Hans")
    assert "添加用户 eve" in admin.get("/admin?view=audit").text


def test_the_audit_log_is_searched_and_paged(admin: TestClient) -> None:
    for number in range(60):
        send(admin, "/admin/team", user="root", team=f"team{number}")
    page = admin.get("/admin?view=audit&user=root&text=into+team").text
    assert "team59" in page
    assert "team0<" not in page
    (older,) = re.findall(r'href="(/admin\?[^"]*before=\d+)"', page)
    page = admin.get(older.replace("&amp;", "&")).text
    assert "team0<" in page
    assert "team59" not in page
    assert "Nothing of that kind was done." in admin.get("/admin?view=audit&user=nobody").text
    for before in ("0", "-1", "x", "9" * 30):
        assert admin.get(f"/admin?view=audit&before={before}").status_code == 200


def test_signs_ins_and_failures_are_told_and_guessing_does_not_fill_the_log(
    console: ConsoleUnderTest, admin: TestClient
) -> None:
    guesser = console.client()
    key = form_key(guesser.get("/signin").text)
    for number in range(40):
        guesser.post("/signin", data={"form_key": key, "token": f"sfp_{number}"})
    page = admin.get("/admin?view=audit&text=failed").text
    assert page.count("failed to sign in with a personal token") == 1
    console.clock.ahead_s += 120
    guesser.post("/signin", data={"form_key": key, "token": "sfp_again"})
    assert admin.get("/admin?view=audit&text=failed").text.count("failed to sign in") == 2


def test_a_user_who_is_not_there_is_told_of_in_the_readers_language(admin: TestClient) -> None:
    admin.headers["Accept-Language"] = "zh-CN"
    answer = admin.get("/admin/users/nobody-here")
    assert answer.status_code == 404
    assert "没有用户" in answer.text
    assert "known here" not in answer.text
    assert "did you mean" not in admin.get("/admin/users/roott").text
