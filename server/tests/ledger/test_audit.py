"""The audit log in the ledger: with what was done or not at all, and never changed afterwards."""

import contextlib
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, insert, update
from sqlalchemy.exc import DatabaseError

from server.tests.databases import sqlite_only
from server.tests.ledger.builders import open_ledger
from starforge.said.sentence import Said, say
from starforge_console.ledger.accounts import add_user, find_user
from starforge_console.ledger.audit import Actor, Asked, Via, act_as, acting_as, audited, list_acts
from starforge_console.ledger.audit_table import audit
from starforge_console.ledger.database import Database
from starforge_console.ledger.tables import users

ANN = Actor(user="ann", via=Via.API, at=1000.0, peer="192.0.2.7", token=3)
EVERYTHING = Asked()


def add_bob(connection: Connection) -> int:
    return add_user(connection, "bob", "member", 1000.0)


def told(user: str = "bob") -> Said:
    return say("did.user_added", user=user, role="member")


def test_an_act_and_its_entry_are_one_transaction(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger, acting_as(ANN):

        def fail(connection: Connection) -> None:
            add_bob(connection)
            raise ValueError("after the act")

        with pytest.raises(ValueError, match="after the act"):
            ledger.write_now(audited(fail, told()))
        assert ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10)) == []

        def forget(_user: int) -> Said:
            raise ValueError("after the act, before the entry")

        with pytest.raises(ValueError, match="before the entry"):
            ledger.write_now(audited(add_bob, forget))
        assert ledger.read_now(lambda c: find_user(c, "bob")) is None

        ledger.write_now(audited(add_bob, told()))
        (entry,) = ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))
        assert (entry.user, entry.via, entry.peer, entry.token, entry.at) == ("ann", "api", "192.0.2.7", 3, 1000.0)
        assert (entry.act, entry.what) == ("user_added", "added user bob as member")
        assert isinstance(entry.what, Said)
        assert entry.what.values == {"user": "bob", "role": "member"}


def test_where_nothing_was_done_there_is_no_entry(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        assert ledger.write_now(audited(lambda _: False, lambda done: told() if done else None)) is False
        assert ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10)) == []


def test_what_no_request_brought_about_was_done_by_the_console_itself(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.write_now(audited(lambda _: None, told()))
        (entry,) = ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))
        assert (entry.user, entry.via) == ("", "itself")


def test_whoever_acts_is_known_to_the_block_alone(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        with acting_as(ANN):
            act_as(Actor(user="eve", via=Via.PAGE, at=5.0))
            ledger.write_now(audited(lambda _: None, told()))
        ledger.write_now(audited(lambda _: None, told()))
        assert [one.user for one in ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))] == ["", "eve"]


@pytest.mark.parametrize(
    "change", [update(audit).values(user="eve"), delete(audit), delete(audit).where(audit.c.number == 1)]
)
def test_the_database_itself_refuses_to_change_or_remove_an_entry(tmp_path: Path, change: object) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.write_now(audited(lambda _: None, told(), by=ANN))
        with pytest.raises(DatabaseError, match="only added to"):
            ledger.write_now(lambda c: c.execute(change))  # type: ignore[call-overload] # one of three kinds
        (entry,) = ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))
        assert entry.user == "ann"


COLUMNS = "number, at, user, via, peer, act, what, said"
FORGED = "1, 5.0, 'eve', 'api', '', 'user_added', 'nothing', '{}'"
ON_CONFLICT = "ON CONFLICT (number) DO UPDATE SET what = 'nothing'"


@pytest.mark.parametrize(
    ("verb", "then"),
    [
        pytest.param("INSERT OR REPLACE", "", marks=sqlite_only),
        pytest.param("REPLACE", "", marks=sqlite_only),
        ("INSERT", ON_CONFLICT),
        ("INSERT", ""),
        ("INSERT", "ON CONFLICT DO NOTHING"),
    ],
)
def test_nothing_comes_into_the_place_of_an_entry(tmp_path: Path, verb: str, then: str) -> None:
    columns = COLUMNS.replace("user", '"user"')
    with open_ledger(tmp_path) as ledger:
        for _ in range(2):
            ledger.write_now(audited(lambda _: None, told(), by=ANN))
        before = ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))
        with contextlib.suppress(DatabaseError):
            statement = f"{verb} INTO audit ({columns}) VALUES ({FORGED}) {then}"
            ledger.write_now(lambda c: c.exec_driver_sql(statement))
        assert ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10)) == before
        ledger.write_now(audited(lambda _: None, told("eve"), by=ANN))
        assert ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))[0].number > 2


@sqlite_only
@pytest.mark.parametrize("number", [-1, 0, -7])
def test_no_entry_takes_a_number_that_would_keep_others_out(tmp_path: Path, number: int) -> None:
    columns = COLUMNS.replace("user", '"user"')
    with open_ledger(tmp_path) as ledger:
        forged = FORGED.replace("1,", f"{number},", 1)
        with pytest.raises(DatabaseError, match="only added to"):
            ledger.write_now(lambda c: c.exec_driver_sql(f"INSERT INTO audit ({columns}) VALUES ({forged})"))  # noqa: S608 - ours
        ledger.write_now(audited(lambda _: None, told(), by=ANN))
        assert [one.number for one in ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))] == [1]


def fill(ledger: Database) -> None:
    for number, user in enumerate(("ann", "bob", "ann", "100%"), start=1):
        actor = Actor(user=user, via=Via.PAGE, at=1000.0 * number)
        ledger.write_now(audited(lambda _: None, told(f"u{number}_x"), by=actor))


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (Asked(), [4, 3, 2, 1]),
        (Asked(user="ann"), [3, 1]),
        (Asked(act="user_added", before=3), [2, 1]),
        (Asked(act="user_role"), []),
        (Asked(text="USER U2"), [2]),
        (Asked(text="u%x"), []),
        (Asked(text="3_x"), [3]),
        (Asked(since=2000.0, until=4000.0), [3, 2]),
    ],
)
def test_entries_are_found_newest_first_by_all_that_is_asked_for(
    tmp_path: Path, asked: Asked, numbers: list[int]
) -> None:
    with open_ledger(tmp_path) as ledger:
        fill(ledger)
        assert [one.number for one in ledger.read_now(lambda c: list_acts(c, asked, 10))] == numbers
        assert [one.number for one in ledger.read_now(lambda c: list_acts(c, asked, 1))] == numbers[:1]


def test_an_entry_that_this_version_cannot_say_is_told_as_it_stands(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        row = {"at": 1.0, "user": "ann", "via": "api", "peer": "", "act": "flew", "what": "flew away", "said": "{}"}
        ledger.write_now(lambda c: c.execute(insert(audit).values(row)))
        (entry,) = ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))
        assert (entry.act, entry.what) == ("flew", "flew away")
        assert not isinstance(entry.what, Said)


def test_users_may_go_and_what_they_did_stays(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.write_now(audited(add_bob, told(), by=ANN))
        ledger.write_now(lambda c: c.execute(delete(users)))
        assert len(ledger.read_now(lambda c: list_acts(c, EVERYTHING, 10))) == 1
