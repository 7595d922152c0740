"""Page sessions: opened with a personal token or a sign-in code, ended by sign-out, 12 idle hours or with the token."""

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from starforge.contract.launch import Secret
from starforge.errors import Busy, SignInRequired
from starforge.said.sentence import Said, say
from starforge_console.accounts.failures import FailureLog
from starforge_console.accounts.pace import Pace
from starforge_console.accounts.sign_in import Accounts, check_administrator, refuse_owner
from starforge_console.accounts.tokens import SIGN_IN, Issued, make_personal_token
from starforge_console.accounts.users import tell_token
from starforge_console.clock import Clock
from starforge_console.domain.roles import scopes_of_role
from starforge_console.domain.tokens import hash_token
from starforge_console.ledger.accounts import (
    PERSONAL,
    Account,
    NewToken,
    User,
    add_token,
    find_account,
    revoke_token,
)
from starforge_console.ledger.audit import Actor, Via, audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.device_codes import deny_approved
from starforge_console.ledger.tokens import (
    TokenOwner,
    TokenRecord,
    extend_session,
    list_tokens,
    load_token_owner,
    revoke_tree,
)

SESSION: Final = "session"
IDLE_S: Final = 12 * 3600.0
LONGEST_AGENT: Final = 300
_EXTEND_AFTER_S: Final = 300.0
"""The end of a session is moved at most this often: most requests write nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Where somebody signs in from: the address, and how their browser calls itself."""

    peer: str
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A fresh session: its text goes into the cookie and is kept nowhere else."""

    text: Secret
    account: Account


class Sessions:
    """The page sessions of one console."""

    def __init__(self, ledger: Database, clock: Clock, accounts: Accounts) -> None:
        self._ledger = ledger
        self._clock = clock
        self._accounts = accounts
        self._failures = FailureLog(ledger, clock)
        self._sign_ins = Pace(clock.monotonic)
        self._makings = Pace(clock.monotonic)

    async def open_with_token(self, token: str, caller: Caller) -> Opened:
        """A session that may do what the personal `token` may, and ends with it.

        Raises:
            SignInRequired: this is no personal token.
            TokenRefused: it is unknown, expired or revoked.
            Forbidden: its user was deactivated.
            Busy: the same as TokenRefused, and `peer` failed too often of late; or its user signed in too often.

        """
        try:
            account = await self._accounts.authenticate(f"Bearer {token}", caller.peer)
        except (Busy, SignInRequired):
            await self._failures.note(say("way.token"), caller.peer)
            raise
        self._sign_ins.take(account)
        return await self._open(account, say("way.token"), caller)

    async def open_with_code(self, code: str, caller: Caller) -> tuple[Opened, Issued]:
        """A session and a new personal token for the user whom the sign-in `code` was made for; the code is used up.

        Raises:
            TokenRefused: the code is unknown, used or too old.
            Forbidden: its user was deactivated.
            Busy: the same as TokenRefused, and `peer` failed too often of late.

        """
        try:
            issued = await self._accounts.spend_sign_in_code(code, caller.peer)
        except (Busy, SignInRequired):
            await self._failures.note(say("way.link"), caller.peer)
            raise
        account = await self._accounts.authenticate(f"Bearer {issued.text.reveal()}", caller.peer)
        return await self._open(account, say("way.link"), caller), issued

    async def open_for(self, user: User, way: Said, caller: Caller, longest_s: float) -> Opened:
        """A session of a user whom somebody else vouched for; it lives `longest_s` at most, however it is used.

        Raises Busy where the user signed in too often of late.
        """
        now = self._clock.now()
        account = Account(
            user_id=user.id,
            user=user.name,
            role=user.role,
            active=user.active,
            scopes=scopes_of_role(user.role),
            expires_at=now + longest_s,
        )
        self._sign_ins.take(account)
        return await self._open(account, way, caller, ends_at=now + longest_s)

    async def note_failure(self, way: Said, caller: Caller) -> None:
        """Tell the audit log that somebody failed to sign in that way."""
        await self._failures.note(way, caller.peer)

    async def find(self, text: str, *, extend: bool = True) -> Account | None:
        """Whose session this is, if it lives; `extend` says that its reader is here, so that it lives on."""
        session_hash, now = hash_token(text), self._clock.now()
        account = await self._ledger.read(lambda c: find_account(c, session_hash, SESSION, now))
        if account is None or not account.active:
            return None
        if extend and account.expires_at - now < IDLE_S - _EXTEND_AFTER_S:
            await self._ledger.write(lambda c: extend_session(c, session_hash, now, now + IDLE_S))
        return account

    async def close(self, text: str) -> None:
        """End a session; fine when it has ended."""
        now = self._clock.now()
        told = say("did.signed_out")
        ending = audited(lambda c: revoke_token(c, hash_token(text), now), lambda done: told if done else None)
        await self._ledger.write(ending)

    async def list_for(self, account: Account, *, everybody: bool = False) -> list[TokenRecord]:
        """The account's personal tokens and sessions, or everybody's. Raises Forbidden."""
        if everybody:
            check_administrator(account)
        now, user_id = self._clock.now(), None if everybody else account.user_id
        return await self._ledger.read(lambda c: list_tokens(c, (PERSONAL, SESSION), now, user_id))

    async def end_others(self, account: Account) -> int:
        """End all sessions and tokens of the account but the one in use, and the token that opened it; gives how many.

        What was approved by a code and not fetched yet, and links that were not followed, end with them.
        """
        now = self._clock.now()
        found = await self._ledger.read(lambda c: list_tokens(c, (PERSONAL, SESSION, SIGN_IN), now, account.user_id))
        current = next((one for one in found if one.id == account.token_id), None)
        opener = current.opened_by if current and current.kind == SESSION else None
        kept = [one for one in (account.token_id, opener) if one is not None]
        others = [one for one in found if one.id not in kept]
        for other in others:
            await self._revoke(other.id, TokenOwner(other.user_id, other.user, other.kind), kept)
        await self._ledger.write(lambda c: deny_approved(c, account.user_id))
        return len(others)

    async def make_token(self, account: Account, scopes: frozenset[str], label: str, days: float) -> Issued:
        """A new personal token of the account's user, which ends at the latest with what they signed in with.

        Raises InputError for a life outside of (0, 3650] days, and Busy where the user made too many of late.
        """
        now = self._clock.now()
        issued = make_personal_token(account.user_id, scopes, label, now, days, bound=account.bound)
        self._makings.take(account)
        adding = audited(
            lambda c: add_token(c, issued.kept, now),
            lambda token: tell_token(token, account.user, scopes, issued.days),
        )
        await self._ledger.write(adding)
        return issued

    async def revoke(self, account: Account, token_id: int) -> None:
        """End a token, the sessions that it opened, and all that was made in them.

        Raises:
            NotFound: there is no such token.
            Forbidden: it belongs to somebody else.

        """
        owner = await self._ledger.read(lambda c: load_token_owner(c, token_id))
        if owner.user_id != account.user_id and not account.administers:
            raise refuse_owner(account, say("act.revoke_token", token=token_id))
        await self._revoke(token_id, owner)

    async def _revoke(self, token_id: int, owner: TokenOwner, spared: Collection[int] = ()) -> None:
        now = self._clock.now()
        told = (
            say("did.session_ended", token=token_id, user=owner.user)
            if owner.kind == SESSION
            else say("did.token_revoked", token=token_id, user=owner.user)
        )
        hashes = await self._ledger.write(
            audited(lambda c: revoke_tree(c, token_id, now, spared), lambda done: told if done else None)
        )
        self._accounts.forget(hashes)

    async def _open(self, account: Account, way: Said, caller: Caller, ends_at: float | None = None) -> Opened:
        text, now = secrets.token_urlsafe(32), self._clock.now()
        kept = NewToken(
            user_id=account.user_id,
            kind=SESSION,
            hash=hash_token(text),
            scopes=account.scopes,
            label="",
            expires_at=min(now + IDLE_S, account.expires_at),
            opened_by=account.token_id,
            peer=caller.peer,
            agent=caller.agent[:LONGEST_AGENT],
            ends_at=ends_at,
        )
        actor = Actor(user=account.user, via=Via.PAGE, at=now, peer=caller.peer, token=account.token_id)
        opening = audited(lambda c: add_token(c, kept, now), say("did.signed_in", way=way), by=actor)
        await self._ledger.write(opening)
        return Opened(text=Secret(text), account=account)


def build_form_key(text: str) -> str:
    """What a form of this session (or of this visitor) must bring along, so that no other site can send it."""
    return hashlib.sha256(b"form:" + text.encode()).hexdigest()
