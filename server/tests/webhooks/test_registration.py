"""Webhooks over the API: who may have which, where they may lie, and what is never shown again."""

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import pytest

from server.tests.databases import read_stored
from server.tests.web.support import ConsoleUnderTest, build_console, close_console
from server.tests.webhooks.receiver import Receiver
from starforge.contract.webhooks import WEBHOOKS_OF_A_USER
from starforge.errors import InputError
from starforge_console.domain.reachable import find_refused, parse_target
from starforge_console.settings.webhooks import WebhookSettings

LINK_LOCAL = "http://169.254.169.254/latest/meta-data"


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",  # noqa: S104 - refused here, and bound to nowhere
            "224.0.0.1",
        ),
        *("::1", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::"),
        *("::127.0.0.1", "64:ff9b:1::7f00:1", "fec0::1", "4000::1"),
    ],
)
def test_addresses_that_are_not_public_are_refused_in_every_spelling(address: str) -> None:
    assert find_refused([ipaddress.ip_address("1.1.1.1"), ipaddress.ip_address(address)], []) is not None


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"])
def test_public_addresses_may_be_called(address: str) -> None:
    assert find_refused([ipaddress.ip_address(address)], []) is None


def test_an_administrator_allows_a_network_and_no_other() -> None:
    allowed = WebhookSettings(webhook_allow="10.20.0.0/16 fd00::/8").allowed
    assert find_refused([ipaddress.ip_address("10.20.3.4"), ipaddress.ip_address("fd00::1")], allowed) is None
    assert find_refused([ipaddress.ip_address("::ffff:10.20.3.4")], allowed) is None
    assert find_refused([ipaddress.ip_address("10.21.0.1")], allowed) is not None


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "hooks.example.org",
            "ftp://example.org/",
            "file:///etc/passwd",
            "http://",
            "https://user:secret-word@example.org/",
        ),
        *(
            "https://example.org/#part",
            "http://exa mple.org/",
            "http://example.org:99999/",
            "http://[::1",
            "http://a/\r\nb",
            "http://a/\x7f",
            "https://b\u00fccher.example/hook",
        ),
    ],
)
def test_what_is_no_plain_http_address_is_refused_in_words(url: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_target(url)
    assert "secret-word" not in str(refused.value)
    assert refused.value.next_step


def test_a_private_address_is_refused_unless_it_is_allowed(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORGE_WEBHOOK_ALLOW", raising=False)
    console = build_console(tmp_path)
    try:
        client = console.client(console.add_user("ann"))
        for url in (receiver.url, LINK_LOCAL, "http://localhost:7080/", "http://[::1]:7080/"):
            answer = client.post("/api/v1/webhooks", json={"url": url})
            assert answer.status_code == 422, url
            assert "not public" in answer.json()["detail"], url
        assert receiver.arrived == []
    finally:
        close_console(console)


def test_a_ping_is_sent_at_once_signed_and_told_of(console: ConsoleUnderTest, receiver: Receiver) -> None:
    client = console.client(console.add_user("ann"))
    added = client.post("/api/v1/webhooks", json={"url": receiver.url}).json()
    path = f"/api/v1/webhooks/{added['webhook']['id']}"
    assert client.post(f"{path}/test").json()["outcome"] == "delivered"
    receiver.usual = 503
    failed = client.post(f"{path}/test").json()
    assert (failed["status"], failed["error"]) == (503, "answered with the status 503")
    ping = receiver.arrived[0]
    assert ping.is_signed_with(added["secret"])
    assert (ping.json["kind"], ping.json["job"]) == ("ping", None)


def test_a_secret_is_shown_once_and_kept_sealed(console: ConsoleUnderTest, receiver: Receiver) -> None:
    client = console.client(console.add_user("ann"))
    added = client.post("/api/v1/webhooks", json={"url": receiver.url}).json()
    webhook_id, secret = added["webhook"]["id"], added["secret"]
    shown = client.get("/api/v1/webhooks").json()["items"], client.get(f"/api/v1/webhooks/{webhook_id}").json()
    assert secret not in json.dumps(shown)
    kept = read_stored(console.root / "state")
    assert receiver.url.encode() in kept
    assert secret.encode() not in kept


def test_users_see_and_change_their_own_alone(console: ConsoleUnderTest, receiver: Receiver) -> None:
    ann, bob = console.client(console.add_user("ann")), console.client(console.add_user("bob"))
    root = console.client(console.add_user("root", "admin"))
    webhook_id = ann.post("/api/v1/webhooks", json={"url": receiver.url}).json()["webhook"]["id"]
    assert bob.get("/api/v1/webhooks").json()["items"] == []
    path = f"/api/v1/webhooks/{webhook_id}"
    for answer in (bob.get(path), bob.post(f"{path}/test"), bob.post(f"{path}/enable"), bob.delete(path)):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert [one["id"] for one in root.get("/api/v1/webhooks").json()["items"]] == [webhook_id]
    assert root.delete(path).status_code == 204
    assert ann.get(path).status_code == 404
    everybody = {"url": receiver.url, "jobs": "all"}
    assert ann.post("/api/v1/webhooks", json=everybody).status_code == 403


def test_a_user_has_so_many_and_no_more(console: ConsoleUnderTest, receiver: Receiver) -> None:
    client = console.client(console.add_user("ann"))
    answers = [client.post("/api/v1/webhooks", json={"url": receiver.url}) for _ in range(WEBHOOKS_OF_A_USER + 1)]
    assert [one.status_code for one in answers] == [201] * WEBHOOKS_OF_A_USER + [409]


@pytest.mark.parametrize("more", [{"events": ["DONE"]}, {"jobs": "mine"}, {"secret": "own"}, {"project": ""}])
def test_a_wish_that_cannot_be_is_refused_by_name(
    console: ConsoleUnderTest, receiver: Receiver, more: dict[str, object]
) -> None:
    answer = console.client(console.add_user("ann")).post("/api/v1/webhooks", json={"url": receiver.url, **more})
    assert answer.status_code == 422
    assert next(iter(more)) in answer.json()["detail"]


@pytest.mark.parametrize("guide", ["docs/en/webhooks.md", "docs/zh-Hans/webhooks.md"])
def test_the_check_in_the_guide_takes_what_is_genuine_and_nothing_else(
    console: ConsoleUnderTest, receiver: Receiver, guide: str, request: pytest.FixtureRequest
) -> None:
    client = console.client(console.add_user("ann"))
    added = client.post("/api/v1/webhooks", json={"url": receiver.url}).json()
    client.post(f"/api/v1/webhooks/{added['webhook']['id']}/test")
    (snippet,) = re.findall(r"```python\n(.*?)```", (request.config.rootpath / guide).read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(snippet, guide, "exec"), names)  # noqa: S102 - our own page
    (ping,) = receiver.arrived
    shown = ("X-StarForge-Timestamp", "X-StarForge-Signature")
    headers = {name: ping.headers[name.lower()] for name in shown}
    assert names["is_genuine"](added["secret"], headers, ping.body)
    assert not names["is_genuine"](added["secret"], headers, ping.body + b" ")
    assert not names["is_genuine"]("sfw_other", headers, ping.body)
    old = {**headers, "X-StarForge-Timestamp": str(int(headers["X-StarForge-Timestamp"]) - 1000)}
    assert not names["is_genuine"](added["secret"], old, ping.body)
