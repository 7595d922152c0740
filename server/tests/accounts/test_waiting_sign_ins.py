"""Sign-ins that strangers begin: bounded, and whoever fills the room keeps nobody else out."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from server.tests.clocks import HandClock
from server.tests.databases import open_database
from starforge.contract.launch import Secret
from starforge.errors import Busy, CodeExpired, SignInPending
from starforge_console.accounts.device import LIFE_S, ROOM, DeviceSignIn
from starforge_console.accounts.throttle import FAILURES_AT_ONCE, RECOVERY_S, Throttle
from starforge_console.domain.callers import find_source
from starforge_console.ledger.database import Database
from starforge_console.ledger.device_codes import NewDeviceCode, add_device_code
from starforge_console.ledger.device_tables import device_codes

VICTIM = "198.51.100.9"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(tmp_path, "ledger")
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def fill(ledger: Database, clock: HandClock, peers: list[str], each: int) -> None:
    """Let so many sign-ins of each address wait, one of each in turn."""
    now = clock.now()

    def add_all(connection: Connection) -> None:
        for number in range(each):
            for peer in peers:
                code = f"{peer} {number} {now}"
                new = NewDeviceCode(
                    device_hash=code, user_hash=f"u{code}", client="sf", peer=peer, expires_at=now + LIFE_S
                )
                add_device_code(connection, new, now, ROOM)

    ledger.write_now(add_all)


def count(ledger: Database) -> Counter[str]:
    return Counter(ledger.read_now(lambda c: list(c.execute(select(device_codes.c.peer)).scalars())))


def waits(devices: DeviceSignIn, code: Secret) -> bool:
    try:
        asyncio.run(devices.poll(code.reveal(), VICTIM))
    except SignInPending:
        return True
    except CodeExpired:
        return False
    raise AssertionError("nobody approved it")


def test_whoever_fills_the_room_makes_room_for_all_others(ledger: Database, clock: HandClock) -> None:
    strangers = [f"203.0.113.{n}" for n in range(ROOM.in_all // ROOM.of_source)]
    fill(ledger, clock, strangers, ROOM.of_source)
    assert sum(count(ledger).values()) == ROOM.in_all
    devices = DeviceSignIn(ledger, clock)
    begun = asyncio.run(devices.begin("sf of ann", VICTIM))
    assert waits(devices, begun.device_code)
    found = count(ledger)
    assert (sum(found.values()), found[VICTIM], found[strangers[0]]) == (ROOM.in_all, 1, ROOM.of_source - 1)
    fill(ledger, clock, [f"192.0.2.{n}" for n in range(20)], ROOM.of_source)
    clock.at += 10
    assert waits(devices, begun.device_code), "they take from one another"
    assert sum(count(ledger).values()) == ROOM.in_all


def test_one_source_is_bounded_and_of_ipv6_that_is_a_network(ledger: Database, clock: HandClock) -> None:
    fill(ledger, clock, [f"2001:db8::{n:x}" for n in range(1, ROOM.of_source + 1)], 1)
    with pytest.raises(Busy, match="too many sign-ins wait"):
        fill(ledger, clock, ["2001:db8::ffff"], 1)
    fill(ledger, clock, ["2001:db8:0:1::1"], 1)


def test_what_is_over_its_time_takes_no_room(ledger: Database, clock: HandClock) -> None:
    fill(ledger, clock, [VICTIM], ROOM.of_source)
    clock.at += LIFE_S + 1
    fill(ledger, clock, [VICTIM], 1)
    assert sum(count(ledger).values()) == 1


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("user ann", "user ann"),
        ("", ""),
    ],
)
def test_an_address_is_counted_as_whom_it_stands_for(peer: str, source: str) -> None:
    assert find_source(peer) == source


def test_whoever_fails_from_many_addresses_of_one_network_is_slowed_down() -> None:
    throttle = Throttle()
    for number in range(FAILURES_AT_ONCE):
        throttle.count_failure(f"2001:db8::{number:x}", 0.0)
    with pytest.raises(Busy):
        throttle.check("2001:db8::abcd", 0.0)
    throttle.check("2001:db8::abcd", RECOVERY_S)
    throttle.check("2001:db8:0:1::1", 0.0)
