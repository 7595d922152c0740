"""Logins at registries over the API: set by administrators, listed without their passwords, sealed in the ledger."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from server.tests.web.support import ConsoleUnderTest
from starforge.errors import StarForgeError
from starforge_console.accounts.registry_logins import RegistryLogins
from starforge_console.accounts.vault import open_vault
from starforge_console.errors import SealBroken
from starforge_console.ledger.registry_credentials import list_credentials

PLACE = "/api/v1/admin/registries"
PASSWORD = "a-long-password"  # noqa: S105 - made up
LOGIN = {"username": "puller", "password": PASSWORD}


def test_a_login_is_kept_listed_replaced_and_removed(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("root", role="admin"))
    kept = client.put(f"{PLACE}/Registry.test:5000", json=LOGIN)
    assert (kept.status_code, kept.json()["registry"], kept.json()["set_by"]) == (200, "registry.test:5000", "root")
    client.put(f"{PLACE}/registry.test:5000", json=LOGIN | {"username": "other"})
    listed = client.get(PLACE)
    assert [(one["registry"], one["username"]) for one in listed.json()["items"]] == [("registry.test:5000", "other")]
    assert PASSWORD not in kept.text + listed.text
    assert client.delete(f"{PLACE}/registry.test:5000").status_code == 204
    assert client.delete(f"{PLACE}/registry.test:5000").status_code == 404
    assert client.get(PLACE).json() == {"items": []}


def test_only_administrators_see_and_change_logins(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    answers = (client.get(PLACE), client.put(f"{PLACE}/registry.test", json=LOGIN), client.delete(f"{PLACE}/a.test"))
    assert [answer.status_code for answer in answers] == [403, 403, 403]


@pytest.mark.parametrize(
    ("registry", "change"),
    [
        ("registry", {}),
        ("registry.test", {"username": ""}),
        ("registry.test", {"username": "a:b"}),
        ("registry.test", {"username": "a\nb"}),
        ("registry.test", {"password": ""}),
        ("registry.test", {"password": f"{PASSWORD}\n"}),
        ("registry.test", {"password": PASSWORD * 2000}),
        ("registry.test", {"password": 7}),
        ("registry.test", {"token": PASSWORD}),
    ],
)
def test_what_can_be_no_login_is_refused_without_being_repeated(
    console: ConsoleUnderTest, registry: str, change: dict[str, object]
) -> None:
    client = console.client(console.add_user("root", role="admin"))
    answer = client.put(f"{PLACE}/{registry}", json=LOGIN | change)
    assert answer.status_code in {400, 422}
    assert PASSWORD not in answer.text
    assert client.get(PLACE).json() == {"items": []}


def test_a_password_is_sealed_and_read_again_after_a_restart(console: ConsoleUnderTest) -> None:
    console.client(console.add_user("root", role="admin")).put(f"{PLACE}/registry.test", json=LOGIN)
    ledger, clock = console.services.ledger, console.services.clock
    (row,) = ledger.read_now(list_credentials)
    assert PASSWORD.encode() not in row.sealed
    assert PASSWORD not in repr(row)
    later = RegistryLogins(ledger, open_vault(console.root / "vault-key", ledger), clock)

    async def find() -> str | None:
        await later.load()
        login = await later.find_login("registry.test")
        assert PASSWORD not in repr(login)
        return None if login is None else login.password.reveal()

    assert asyncio.run(find()) == PASSWORD


def test_a_password_whose_key_is_gone_is_said_to_be_lost(console: ConsoleUnderTest) -> None:
    console.client(console.add_user("root", role="admin")).put(f"{PLACE}/registry.test", json=LOGIN)
    (console.root / "vault-key").unlink()
    with pytest.raises(StarForgeError) as raised:
        asyncio.run(console.services.registry_logins.find_login("registry.test"))
    assert raised.type is SealBroken


def test_whoever_asks_registries_is_told_of_a_changed_login(console: ConsoleUnderTest) -> None:
    told: list[str] = []
    console.services.registry_logins.tell(told.append)
    client = console.client(console.add_user("root", role="admin"))
    client.put(f"{PLACE}/index.docker.io", json=LOGIN)
    client.delete(f"{PLACE}/docker.io")
    assert told == ["docker.io", "docker.io"]


def test_who_set_and_removed_a_login_is_in_the_log_and_the_password_is_not(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("root", role="admin"))
    with capture_logs() as logs:
        client.put(f"{PLACE}/registry.test", json=LOGIN)
        client.delete(f"{PLACE}/registry.test")
        client.delete(f"{PLACE}/registry.test")  # there is none any more
    told = [(entry["event"], entry["registry"], entry["user"]) for entry in logs]
    assert told == [
        ("a login of a registry was set", "registry.test", "root"),
        ("a login of a registry was removed", "registry.test", "root"),
    ]
    assert PASSWORD not in json.dumps(logs)


@pytest.mark.parametrize("key", [None, b"k" * 32, b"short"])
def test_a_login_that_cannot_be_opened_is_in_the_log_at_each_use(console: ConsoleUnderTest, key: bytes | None) -> None:
    console.client(console.add_user("root", role="admin")).put(f"{PLACE}/registry.test", json=LOGIN)
    file = console.root / "vault-key"
    file.unlink() if key is None else file.write_bytes(key)
    with capture_logs() as logs, pytest.raises(StarForgeError):
        asyncio.run(console.services.registry_logins.find_login("registry.test"))
    assert [(entry["event"], entry["registry"]) for entry in logs] == [
        ("a login of a registry cannot be used", "registry.test")
    ]
