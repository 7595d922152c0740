"""Who a request speaks for: personal tokens, looked up at most once a second, and sign-in codes, good once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starforge.errors import SignInRequired
from starforge.said.sentence import say
from starforge_console.accounts.throttle import Throttle
from starforge_console.accounts.tokens import (
    MADE_AT_SIGN_IN,
    PERSONAL_DAYS,
    PERSONAL_PREFIX,
    SIGN_IN,
    Issued,
    make_personal_token,
)
from starforge_console.accounts.users import tell_token
from starforge_console.clock import Clock
from starforge_console.domain.roles import Scope, scopes_of_role
from starforge_console.domain.tokens import hash_token
from starforge_console.errors import Forbidden, TokenRefused
from starforge_console.ledger.accounts import PERSONAL, Account, find_account, spend_for_token
from starforge_console.ledger.audit import Actor, Via, audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.tokens import revoke_tree

REMEMBERED_S: Final = 1.0
"""How long a token that was valid is taken at its word: another process's revocation is seen after that."""
REMEMBERED_AT_MOST: Final = 4096

_SCHEME: Final = "bearer"
_SIGN_IN_AGAIN: Final = "run 'sf login' with a new token"


@dataclass(frozen=True, slots=True)
class _Remembered:
    account: Account
    until: float


class Accounts:
    """Checks tokens for one console; belongs to one event loop."""

    def __init__(self, ledger: Database, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._throttle = Throttle()
        self._remembered: dict[str, _Remembered] = {}
        self._forgotten = 0
        """Counts up with each `forget`: what was read before it is not remembered after it."""

    async def authenticate(self, header: str | None, peer: str) -> Account:
        """Whose personal token stands in the Authorization `header`.

        Raises:
            SignInRequired: there is no token.
            TokenRefused: it is unknown, expired or revoked.
            Forbidden: its user was deactivated.
            Busy: the same as TokenRefused, and `peer` failed too often of late.

        """
        token_hash = hash_token(_parse_header(header))
        known = self._remembered.get(token_hash)
        now = self._clock.now()
        if known is not None and known.until > self._clock.monotonic() and known.account.expires_at > now:
            return known.account
        self._remembered.pop(token_hash, None)
        forgotten = self._forgotten
        account = await self._ledger.read(lambda c: find_account(c, token_hash, PERSONAL, now))
        if account is None:
            self._count_failure(peer)
            raise TokenRefused("the token is unknown, expired or revoked", next_step=_SIGN_IN_AGAIN)
        if not account.active:
            raise Forbidden(say("form.deactivated", user=account.user), next_step=say("fault.ask_administrator"))
        if forgotten == self._forgotten:
            self._remember(token_hash, account)
        return account

    async def revoke(self, account: Account, header: str | None) -> None:
        """End the account's token, which is in `header`, and all that came of it."""
        token_hash = hash_token(_parse_header(header))
        now = self._clock.now()
        token = account.token_id or 0
        told = say("did.token_revoked", token=token, user=account.user)
        revoking = audited(lambda c: revoke_tree(c, token, now), lambda done: told if done else None)
        self.forget([token_hash, *await self._ledger.write(revoking)])

    def forget(self, hashes: Iterable[str]) -> None:
        """Ask the ledger again about the tokens with these hashes: they were revoked."""
        self._forgotten += 1
        for token_hash in hashes:
            self._remembered.pop(token_hash, None)

    def forget_all(self) -> None:
        """Ask the ledger again about every token: what users may do has changed."""
        self._forgotten += 1
        self._remembered.clear()

    async def spend_sign_in_code(self, code: str, peer: str) -> Issued:
        """A new personal token for the user whom `code` was made for; the code is used up.

        Raises:
            TokenRefused: the code is unknown, used or too old.
            Forbidden: its user was deactivated.
            Busy: the same as TokenRefused, and `peer` failed too often of late.

        """
        code_hash, now = hash_token(code), self._clock.now()
        account = await self._ledger.read(lambda c: find_account(c, code_hash, SIGN_IN, now))
        issued = None if account is None else await self._spend(account, code_hash, peer)
        if issued is None:
            self._count_failure(peer)
            raise TokenRefused(say("fault.no_link"), next_step=say("fault.no_link_next"))
        return issued

    async def _spend(self, account: Account, code_hash: str, peer: str) -> Issued | None:
        """The token for the user of the code, in the transaction that spends it; None where another was faster."""
        if not account.active:
            raise Forbidden(say("form.deactivated", user=account.user), next_step=say("fault.ask_administrator"))
        now, scopes = self._clock.now(), scopes_of_role(account.role)
        issued = make_personal_token(account.user_id, scopes, MADE_AT_SIGN_IN, now, PERSONAL_DAYS, bound=account.bound)
        spending = audited(
            lambda c: spend_for_token(c, code_hash, SIGN_IN, issued.kept, now),
            lambda token: None if token is None else tell_token(token, account.user, scopes, issued.days),
            by=Actor(user=account.user, via=Via.PAGE, at=now, peer=peer),
        )
        return issued if await self._ledger.write(spending) is not None else None

    def _count_failure(self, peer: str) -> None:
        """Note a failure of `peer`. Raises Busy when it has none left.

        Called for what is no valid token alone: behind one address there may be many, and only some of them guess.
        """
        now = self._clock.monotonic()
        self._throttle.check(peer, now)
        self._throttle.count_failure(peer, now)

    def _remember(self, token_hash: str, account: Account) -> None:
        if len(self._remembered) >= REMEMBERED_AT_MOST:
            self._remembered.clear()
        self._remembered[token_hash] = _Remembered(account, self._clock.monotonic() + REMEMBERED_S)


def check_scope(account: Account, scope: Scope) -> None:
    """Raises Forbidden when the account's token may not do what `scope` stands for."""
    if scope.value not in account.scopes:
        if scope not in scopes_of_role(account.role):
            raise Forbidden(
                say("fault.no_administrator", user=account.user),
                why=say("fault.role_lacks", user=account.user, role=account.role, scope=repr(scope.value)),
                next_step=say("fault.ask_administrator"),
            )
        raise Forbidden(
            say("fault.no_scope", user=account.user, scope=repr(scope.value)),
            why=say("fault.no_scope_why", scopes=", ".join(sorted(account.scopes))),
            next_step=_describe_way(account, scope),
        )


def check_operator(account: Account) -> None:
    """Raises Forbidden for whoever does not look after machines, queue and everybody's jobs."""
    if not account.operates:
        check_scope(account, Scope.ADMIN)
        raise _refuse_role(account)


def check_administrator(account: Account) -> None:
    """Raises Forbidden for whoever may not do everything: operators too."""
    check_operator(account)
    if not account.administers:
        raise _refuse_role(account)


def _refuse_role(account: Account) -> Forbidden:
    return Forbidden(
        say("fault.no_administrator", user=account.user),
        why=say("fault.not_admin_why", user=account.user, role=account.role),
        next_step=say("fault.ask_administrator"),
    )


def owns(account: Account, owner_id: int) -> bool:
    """Whether what belongs to `owner_id` is the account's own, or the account looks after everybody's."""
    return account.user_id == owner_id or account.operates


def check_owner(account: Account, owner_id: int, action: str) -> None:
    """Raises Forbidden unless the account `owns` the thing."""
    if not owns(account, owner_id):
        raise refuse_owner(account, action)


def refuse_owner(account: Account, action: str) -> Forbidden:
    """What whoever may not do something to what is another user's is told."""
    return Forbidden(
        say("fault.may_not", user=account.user, action=action),
        why=say("fault.may_not_why"),
        next_step=say("fault.may_not_next"),
    )


def _describe_way(account: Account, scope: Scope) -> str:
    if scope is not Scope.ADMIN:
        return say("fault.no_scope_next")
    command = (
        f"starforge-console token create --user {account.user} --scopes read,submit,{scope.value}"
        " | sf login --server URL"
    )
    return say("fault.no_scope_admin_next", command=command)


def _parse_header(header: str | None) -> str:
    if not header:
        raise SignInRequired("the request carries no token", next_step="run 'sf login'")
    scheme, _, token = header.partition(" ")
    token = token.strip()
    if scheme.lower() != _SCHEME or not token.startswith(PERSONAL_PREFIX):
        raise SignInRequired(
            "the Authorization header holds no personal token",
            why=f"it must read 'Bearer {PERSONAL_PREFIX}…'",
            next_step="run 'sf login'",
        )
    return token
