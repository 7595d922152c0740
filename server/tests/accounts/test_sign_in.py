import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from server.tests.clocks import HandClock
from server.tests.databases import open_database, read_stored
from starforge.errors import Busy, InputError, SignInRequired, StarForgeError
from starforge_console.accounts.sign_in import Accounts, check_scope
from starforge_console.accounts.throttle import FAILURES_AT_ONCE, PEERS_AT_MOST, Throttle
from starforge_console.accounts.tokens import (
    Issued,
    make_personal_token,
    make_sign_in_code,
    parse_scopes,
)
from starforge_console.domain.roles import Scope, scopes_of_role
from starforge_console.domain.tokens import hash_token
from starforge_console.errors import Forbidden, TokenRefused
from starforge_console.ledger.accounts import PERSONAL, Account, add_token, add_user, find_account, revoke_token
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import change_active

PEER = "10.0.0.7"
DAY_S = 86400.0


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(tmp_path, "ledger")
    yield opened
    opened.close()


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1_000_000.0)


@pytest.fixture
def accounts(ledger: Database, clock: HandClock) -> Accounts:
    return Accounts(ledger, clock)


def issue(ledger: Database, clock: HandClock, days: float = 90) -> Issued:
    user_id = ledger.write_now(lambda c: add_user(c, "ann", "member", clock.now()))
    issued = make_personal_token(user_id, scopes_of_role("member"), "test", clock.now(), days)
    ledger.write_now(lambda c: add_token(c, issued.kept, clock.now()))
    return issued


def sign_in(accounts: Accounts, token: str, peer: str = PEER) -> Account:
    return asyncio.run(accounts.authenticate(f"Bearer {token}", peer))


def test_a_token_speaks_for_its_user(ledger: Database, clock: HandClock, accounts: Accounts) -> None:
    account = sign_in(accounts, issue(ledger, clock).text.reveal())
    assert (account.user, account.role, account.scopes) == ("ann", "member", frozenset({"read", "submit"}))


def test_the_ledger_holds_the_hash_and_never_the_token(ledger: Database, clock: HandClock, tmp_path: Path) -> None:
    issued = issue(ledger, clock)
    token = issued.text.reveal()
    assert ledger.read_now(lambda c: find_account(c, hash_token(token), PERSONAL, clock.now())) is not None
    ledger.close()
    stored = read_stored(tmp_path)
    assert hash_token(token).encode() in stored
    assert token.encode() not in stored
    assert token not in repr(issued)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic sfp_x", "Bearer xyz", "sfp_x"])
def test_a_header_without_a_personal_token_asks_to_sign_in(accounts: Accounts, header: str | None) -> None:
    with pytest.raises(SignInRequired):
        asyncio.run(accounts.authenticate(header, PEER))


def test_an_expired_token_is_refused_also_while_it_is_remembered(
    ledger: Database, clock: HandClock, accounts: Accounts
) -> None:
    token = issue(ledger, clock, days=0.5 / DAY_S).text.reveal()
    sign_in(accounts, token)
    clock.at += 0.6
    with pytest.raises(TokenRefused):
        sign_in(accounts, token)


def test_a_token_that_this_process_revoked_is_refused_at_once(
    ledger: Database, clock: HandClock, accounts: Accounts
) -> None:
    token = issue(ledger, clock).text.reveal()
    account = sign_in(accounts, token)
    asyncio.run(accounts.revoke(account, f"Bearer {token}"))
    with pytest.raises(TokenRefused):
        sign_in(accounts, token)


def test_a_token_that_another_process_revoked_is_refused_within_a_second(
    ledger: Database, clock: HandClock, accounts: Accounts
) -> None:
    token = issue(ledger, clock).text.reveal()
    sign_in(accounts, token)
    ledger.write_now(lambda c: revoke_token(c, hash_token(token), clock.now()))
    clock.at += 1.0
    with pytest.raises(TokenRefused):
        sign_in(accounts, token)


def guess_until_slowed_down(accounts: Accounts) -> Busy:
    for number in range(FAILURES_AT_ONCE):
        with pytest.raises(TokenRefused):
            sign_in(accounts, f"sfp_guess-{number}")
    with pytest.raises(Busy) as refusal:
        sign_in(accounts, "sfp_one-more")
    return refusal.value


def test_failures_of_one_address_are_slowed_down_for_a_while_and_no_other_address_is(
    clock: HandClock, accounts: Accounts
) -> None:
    refusal = guess_until_slowed_down(accounts)
    assert refusal.retry_after_s > 0
    with pytest.raises(TokenRefused):
        sign_in(accounts, "sfp_guess", peer="10.0.0.8")
    clock.at += refusal.retry_after_s
    with pytest.raises(TokenRefused):
        sign_in(accounts, "sfp_guess")


def test_a_valid_token_passes_however_many_others_fail_behind_its_address(
    ledger: Database, clock: HandClock, accounts: Accounts
) -> None:
    token = issue(ledger, clock).text.reveal()
    guess_until_slowed_down(accounts)
    assert sign_in(accounts, token).user == "ann"


def test_a_sign_in_code_passes_however_many_others_fail_and_is_good_once(
    ledger: Database, clock: HandClock, accounts: Accounts
) -> None:
    user_id = ledger.write_now(lambda c: add_user(c, "ann", "member", clock.now()))
    code = make_sign_in_code(user_id, clock.now())
    ledger.write_now(lambda c: add_token(c, code.kept, clock.now()))
    guess_until_slowed_down(accounts)
    issued = asyncio.run(accounts.spend_sign_in_code(code.text.reveal(), PEER))
    assert sign_in(accounts, issued.text.reveal()).user == "ann"
    with pytest.raises(Busy):
        asyncio.run(accounts.spend_sign_in_code(code.text.reveal(), PEER))


def test_the_throttle_remembers_a_bounded_number_of_addresses() -> None:
    throttle = Throttle()
    for number in range(3 * PEERS_AT_MOST):
        throttle.count_failure(f"peer-{number}", 0.0)
    assert len(throttle._peers) == PEERS_AT_MOST


@pytest.mark.parametrize(
    ("names", "role", "granted"),
    [
        (["submit"], "member", {"read", "submit"}),
        ([" read ", ""], "member", {"read"}),
        (["admin"], "admin", {"read", "admin"}),
    ],
)
def test_scopes_are_granted_within_the_role(names: list[str], role: str, granted: set[str]) -> None:
    assert parse_scopes(names, role) == granted


@pytest.mark.parametrize(("names", "role"), [(["admin"], "member"), (["fly"], "admin")])
def test_scopes_beyond_the_role_or_unknown_are_refused(names: list[str], role: str) -> None:
    with pytest.raises(InputError):
        parse_scopes(names, role)


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 4000])
def test_a_token_lives_between_a_moment_and_ten_years(days: float) -> None:
    with pytest.raises(StarForgeError):
        make_personal_token(1, frozenset({"read"}), "test", 0.0, days)


@pytest.mark.parametrize(("role", "next_step"), [("admin", "--scopes read,submit,admin"), ("member", "ask an")])
def test_a_member_is_sent_to_an_administrator_and_an_administrator_to_a_token_that_may(
    role: str, next_step: str
) -> None:
    account = Account(user_id=1, user="ann", role=role, active=True, scopes=frozenset({"read"}), expires_at=2.0)
    with pytest.raises(Forbidden) as refused:
        check_scope(account, Scope.ADMIN)
    assert next_step in refused.value.next_step


def test_a_token_that_is_revoked_while_it_is_looked_up_is_not_remembered(
    ledger: Database, clock: HandClock, accounts: Accounts
) -> None:
    token = issue(ledger, clock).text.reveal()

    async def go() -> None:
        looking = asyncio.ensure_future(accounts.authenticate(f"Bearer {token}", PEER))
        await asyncio.sleep(0)  # it has asked the ledger, and has no answer yet
        await ledger.write(lambda c: revoke_token(c, hash_token(token), clock.now()))
        accounts.forget([hash_token(token)])
        with contextlib.suppress(TokenRefused):
            await looking
        with pytest.raises(TokenRefused):
            await accounts.authenticate(f"Bearer {token}", PEER)

    asyncio.run(go())


def test_no_session_is_opened_by_a_token_that_was_revoked_meanwhile(ledger: Database, clock: HandClock) -> None:
    issued = issue(ledger, clock)
    account = ledger.read_now(lambda c: find_account(c, issued.kept.hash, PERSONAL, clock.now()))
    assert account is not None
    ledger.write_now(lambda c: revoke_token(c, issued.kept.hash, clock.now()))
    session = replace(issued.kept, kind="session", hash="another", opened_by=account.token_id)
    with pytest.raises(TokenRefused):
        ledger.write_now(lambda c: add_token(c, session, clock.now()))


def test_nobody_gets_a_token_who_was_deactivated_meanwhile(ledger: Database, clock: HandClock) -> None:
    ledger.write_now(lambda c: add_user(c, "root", "admin", clock.now()))
    issued = issue(ledger, clock)
    ledger.write_now(lambda c: change_active(c, "ann", clock.now(), active=False))
    with pytest.raises(Forbidden, match="ann is deactivated"):
        ledger.write_now(lambda c: add_token(c, replace(issued.kept, hash="another"), clock.now()))
