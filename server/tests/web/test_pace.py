"""What everybody may do is bounded for each user: every time stands in the audit log, which keeps everything."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.tests.pages.support import form_key, sign_in
from server.tests.web.support import ConsoleUnderTest, build_console, close_console
from server.tests.web.test_device import begin, decide
from starforge_console.accounts import pace
from starforge_console.accounts.pace import RECOVERY_S

FEW = 5
Act = Callable[[ConsoleUnderTest, TestClient, str], int]


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleUnderTest]:
    """A console that lets everybody do little at once."""
    monkeypatch.setattr(pace, "AT_ONCE", FEW)
    built = build_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built)


def again(console: ConsoleUnderTest, _client: TestClient, token: str) -> int:
    client = console.client()
    form = {"form_key": form_key(client.get("/signin").text), "token": token}
    return client.post("/signin", data=form, follow_redirects=False).status_code


def make(_console: ConsoleUnderTest, client: TestClient, _token: str) -> int:
    form = {"form_key": form_key(client.get("/tokens").text), "label": "more", "days": "1", "scope": ["read"]}
    return client.post("/tokens", data=form).status_code


def deny(console: ConsoleUnderTest, client: TestClient, _token: str) -> int:
    page = decide(client, begin(console)["user_code"], "deny")
    return 200 if "does not sign in" in page else 429


@pytest.mark.parametrize(("act", "told"), [(again, "signed_in"), (make, "token_made"), (deny, "device_denied")])
def test_a_viewer_cannot_fill_the_audit_log(console: ConsoleUnderTest, act: Act, told: str) -> None:
    root = console.client(console.add_user("root", "admin"))
    headers = console.add_user("ann", "viewer")
    token, ann = headers["Authorization"].removeprefix("Bearer "), sign_in(console, headers)
    statuses = [act(console, ann, token) for _ in range(3 * FEW)]
    assert set(statuses[: FEW - 1]) <= {200, 303}
    assert set(statuses[FEW + 1 :]) == {429}
    entries = root.get("/api/v1/admin/audit", params={"act": told, "user": "ann"}).json()["items"]
    assert len(entries) in {FEW, FEW + 1}, "one for each that was done; what was spent first comes back meanwhile"
    bob = console.add_user("bob", "viewer")
    assert act(console, sign_in(console, bob), bob["Authorization"].removeprefix("Bearer ")) in {200, 303}
    console.clock.ahead_s += RECOVERY_S + 1
    assert act(console, ann, token) in {200, 303}


def test_what_ends_tokens_is_never_refused(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann", "viewer")
    ann = sign_in(console, headers)
    token = headers["Authorization"].removeprefix("Bearer ")
    while again(console, ann, token) == 303:
        make(console, ann, token)
    page = ann.post("/tokens/end-others", data={"form_key": form_key(ann.get("/tokens").text)})
    assert "Your other sessions and tokens have ended." in page.text
