"""Signs `sf` in by a code (RFC 8628): a command shows it, somebody approves it, and the command gets a token."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starforge.contract.launch import Secret
from starforge.errors import CodeExpired, InputError, NotFound, SignInDenied, SignInPending, SlowDown
from starforge.said.sentence import say
from starforge_console.accounts.pace import Pace
from starforge_console.accounts.throttle import Throttle
from starforge_console.accounts.tokens import DAY_S, Issued, find_cut, make_personal_token
from starforge_console.accounts.users import tell_token
from starforge_console.clock import Clock
from starforge_console.domain.tokens import hash_token
from starforge_console.errors import Forbidden, TokenRefused
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import Actor, Via, audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.device_codes import (
    DeviceRequest,
    Grant,
    NewDeviceCode,
    Room,
    add_device_code,
    decide,
    find_request,
    find_state,
    spend,
)

LIFE_S: Final = 600
INTERVAL_S: Final = 5.0
SLOWER_S: Final = 5.0
"""So much is added to the interval each time that a command polls too early."""
LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Of the code that people type: no vowels, so that it spells nothing, and nothing that looks like a digit."""
LENGTH: Final = 8
ROOM: Final = Room(of_source=20, in_all=1000)
LONGEST_CLIENT: Final = 100
_POLLS_REMEMBERED: Final = 2000
_EARLY_S: Final = 0.5
"""A poll may come so much earlier than it should: clocks and networks are not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A sign-in that begins: what the command polls with, and what it shows."""

    device_code: Secret
    user_code: str


@dataclass(slots=True)
class _Poll:
    at: float
    interval_s: float


class DeviceSignIn:
    """The sign-ins of one console that wait to be approved; belongs to one event loop."""

    def __init__(self, ledger: Database, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._guesses = Throttle()
        self._beginnings = Throttle()
        self._decisions = Pace(clock.monotonic)
        self._polls: OrderedDict[str, _Poll] = OrderedDict()

    async def begin(self, client: str, peer: str) -> Begun:
        """A new sign-in for whoever approves it; `client` is what the page says of who asks.

        Raises Busy where `peer` begins too many.
        """
        monotonic = self._clock.monotonic()
        self._beginnings.check(peer, monotonic)
        self._beginnings.count_failure(peer, monotonic)
        device_code, now = secrets.token_urlsafe(32), self._clock.now()
        user_code = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
        new = NewDeviceCode(
            device_hash=hash_token(device_code),
            user_hash=hash_token(user_code),
            client=_clean_client(client),
            peer=peer,
            expires_at=now + LIFE_S,
        )
        await self._ledger.write(lambda c: add_device_code(c, new, now, ROOM))
        half = LENGTH // 2
        return Begun(device_code=Secret(device_code), user_code=f"{user_code[:half]}-{user_code[half:]}")

    async def find(self, account: Account, typed: str) -> DeviceRequest:
        """The sign-in that shows the code that somebody `typed`.

        Raises:
            NotFound: no sign-in shows this code now.
            Busy: the account guessed too often of late.

        """
        user_hash, now = self._read_code(account, typed), self._clock.now()
        found = await self._ledger.read(lambda c: find_request(c, user_hash, now))
        if found is None:
            raise self._no_such_code(account)
        return found

    async def approve(
        self, account: Account, typed: str, scopes: frozenset[str], days: int
    ) -> tuple[DeviceRequest, float | None]:
        """Let the command that shows this code sign in as the account; with when its token ends, if that is earlier.

        It ends at the latest with what the account signed in with (Unix seconds).

        Raises:
            NotFound: no sign-in shows this code now.
            InputError: the scopes are more than the account's own.
            Busy: the account guessed, or decided, too often of late.

        """
        if not scopes <= account.scopes:
            raise InputError(say("fault.grants_too_much"), next_step=say("fault.leave_out"))
        grant = Grant(scopes=scopes, days=days, bound=account.bound)
        cut_at = find_cut(account.bound, self._clock.now() + days * DAY_S)
        return await self._decide(account, typed, grant), cut_at

    async def deny(self, account: Account, typed: str) -> DeviceRequest:
        """Let nobody sign in with this code. Raises as `approve` does."""
        return await self._decide(account, typed, None)

    async def poll(self, device_code: str, peer: str) -> tuple[Issued, frozenset[str]]:
        """The token for the command that polls with this code, once, as soon as somebody approved it.

        Raises:
            SignInPending: nobody has decided yet.
            SlowDown: the same, and it polls too early.
            SignInDenied: somebody said no, or may not sign in any more.
            CodeExpired: the code is unknown, over its time, or was answered before.
            Busy: the same, and `peer` tried too many.

        """
        device_hash, now = hash_token(device_code), self._clock.now()
        state = await self._ledger.read(lambda c: find_state(c, device_hash, now))
        if state is None:
            self._guesses.check(peer, self._clock.monotonic())
            self._guesses.count_failure(peer, self._clock.monotonic())
            raise _expired()
        self._check_pace(device_hash)
        if state.user_id is None or state.user is None:
            raise SignInPending("nobody has approved the sign-in yet", next_step="repeat after the interval")
        if state.denied or not state.active:
            raise _denied(state.user)
        if state.bound is not None and state.bound.until <= now:
            raise _denied(state.user)
        issued = make_personal_token(state.user_id, state.scopes, state.client, now, state.days, bound=state.bound)
        actor, user = Actor(user=state.user, via=Via.API, at=now, peer=peer), state.user
        spending = audited(
            lambda c: spend(c, device_hash, issued.kept, now),
            lambda made: None if made is None else tell_token(made, user, state.scopes, issued.days),
            by=actor,
        )
        try:
            made = await self._ledger.write(spending)
        except (Forbidden, TokenRefused) as error:  # deactivated, or what approved it was revoked
            raise _denied(user) from error
        if made is None:
            raise _expired()
        return issued, state.scopes

    async def _decide(self, account: Account, typed: str, grant: Grant | None) -> DeviceRequest:
        user_hash, now = self._read_code(account, typed), self._clock.now()
        found = await self._ledger.read(lambda c: find_request(c, user_hash, now))
        if found is None:
            raise self._no_such_code(account)
        self._decisions.take(account)
        client, peer = found.client, found.peer
        told = (
            say("did.device_denied", client=client, peer=peer)
            if grant is None
            else say("did.device_approved", client=client, peer=peer, scopes=", ".join(sorted(grant.scopes)))
        )
        deciding = audited(
            lambda c: decide(c, user_hash, now, account.user_id, grant), lambda done: told if done else None
        )
        decided = await self._ledger.write(deciding)
        if decided is None:  # somebody else was faster
            raise self._no_such_code(account)
        return decided

    def _read_code(self, account: Account, typed: str) -> str:
        """The hash of the code that was typed. Raises Busy while the account has no guess left."""
        self._guesses.check(_guesser(account), self._clock.monotonic())
        return hash_token("".join(one for one in typed.upper() if one in LETTERS)[: LENGTH + 1])

    def _no_such_code(self, account: Account) -> NotFound:
        self._guesses.count_failure(_guesser(account), self._clock.monotonic())
        return NotFound(
            say("fault.no_such_code"), why=say("fault.no_such_code_why"), next_step=say("fault.no_such_code_next")
        )

    def _check_pace(self, device_hash: str) -> None:
        """Raises SlowDown for a poll before its time, whose interval is longer from then on."""
        monotonic = self._clock.monotonic()
        last = self._polls.get(device_hash)
        early = last is not None and monotonic - last.at < last.interval_s - _EARLY_S
        interval_s = INTERVAL_S if last is None else last.interval_s + (SLOWER_S if early else 0.0)
        self._polls[device_hash] = _Poll(monotonic, interval_s)
        self._polls.move_to_end(device_hash)
        if len(self._polls) > _POLLS_REMEMBERED:
            self._polls.popitem(last=False)
        if early:
            raise SlowDown(
                "it polls too often",
                why=f"the interval is {interval_s:g} s now",
                next_step="wait that long between polls",
            )


def _clean_client(client: str) -> str:
    printable = "".join(one if one.isprintable() else " " for one in client)
    return " ".join(printable.split())[:LONGEST_CLIENT] or "sf"


def _guesser(account: Account) -> str:
    return f"user {account.user}"


def _denied(user: str) -> SignInDenied:
    return SignInDenied(f"{user} did not let this sign in", next_step="run 'sf login' again")


def _expired() -> CodeExpired:
    return CodeExpired(
        "the code is unknown, over its time or was answered before", next_step="run 'sf login' again for a new one"
    )
