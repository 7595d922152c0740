"""Everybody who may come to a door: people of each role and scope, and all who bring what lets nobody in."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, update

from starforge_console.accounts.sessions import IDLE_S, SESSION, build_form_key
from starforge_console.accounts.tokens import make_personal_token, make_sign_in_code
from starforge_console.domain.tokens import hash_token
from starforge_console.ledger.accounts import NewToken, add_token, add_user
from starforge_console.ledger.database import Database
from starforge_console.ledger.tables import tokens, users
from starforge_console.web.pages.visit import SESSION_COOKIE

OWNER: Final = "owner-kept-secret"
"""The name is looked for in what strangers are told."""
ROLES: Final = {
    OWNER: "member",
    "vera": "viewer",
    "otto": "member",
    "olga": "operator",
    "adam": "admin",
    "dora": "admin",
}
GONE: Final = "dora"
_READ, _SUBMIT, _ADMIN = frozenset({"read"}), frozenset({"read", "submit"}), frozenset({"read", "admin"})
_ALL: Final = _SUBMIT | _ADMIN
_KNOWN: Final[Sequence[tuple[str, frozenset[str]]]] = (
    ("vera", _READ),
    ("vera", _ALL),
    (OWNER, _READ),
    (OWNER, _ALL),
    ("otto", _READ),
    ("otto", _ALL),
    *(("olga", scopes) for scopes in (_READ, _SUBMIT, _ADMIN, _ALL)),
    *(("adam", scopes) for scopes in (_READ, _SUBMIT, _ADMIN, _ALL)),
)
_LET: Final = {"viewer": _READ, "member": _SUBMIT, "operator": _ALL, "admin": _ALL}
"""What the role leaves of a token's scopes, written down here a second time."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody at a door, with what they show. `role` is empty for whoever must be a stranger there."""

    name: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    role: str = ""
    may: frozenset[str] = frozenset()
    """What they may do: the token's scopes as far as the role goes."""
    form_key: str = ""
    status: int = 401
    """How the API refuses them where they are strangers."""

    @property
    def operates(self) -> bool:
        return "admin" in self.may

    @property
    def administers(self) -> bool:
        return self.operates and self.role == "admin"

    @property
    def is_owner(self) -> bool:
        return self.user == OWNER


@dataclass(frozen=True, slots=True)
class Stolen:
    """What really was given out, and for something else than this."""

    attempt_token: str
    join_token: str
    device_code: str
    webhook_secret: str


class People:
    """The users of a console, and fresh tokens and sessions for them, written past the console as commands do."""

    def __init__(self, ledger: Database, now: float, stolen: Stolen) -> None:
        self._ledger = ledger
        self._now = now
        self._stolen = stolen
        self._ids = ledger.write_now(lambda c: {name: add_user(c, name, role, now) for name, role in ROLES.items()})
        self._kept_by_gone = ledger.write_now(self._deactivate)

    def _deactivate(self, connection: Connection) -> tuple[str, str]:
        """The token and the session that somebody still holds who came while they were active."""
        kept = self._token(connection, GONE, _ALL)[0], self._session(connection, GONE, _ALL)
        connection.execute(update(users).where(users.c.name == GONE).values(active=False))
        return kept

    def token(self, user: str, scopes: frozenset[str] = _ALL) -> str:
        """A new personal token."""
        return self._ledger.write_now(lambda c: self._token(c, user, scopes)[0])

    def token_id(self, user: str) -> int:
        """The number of a new token."""
        return self._ledger.write_now(lambda c: self._token(c, user, _READ)[1])

    def come_to_the_api(self) -> list[Caller]:
        """Everybody, with tokens as programs show them."""
        return self._ledger.write_now(lambda c: [*self._strangers(c), *self._known(c)])

    def come_to_the_pages(self) -> list[Caller]:
        """Everybody, with cookies as browsers do."""
        return self._ledger.write_now(lambda c: [*self._visitors(c), *self._readers(c)])

    def _strangers(self, connection: Connection) -> Iterator[Caller]:
        session = self._session(connection, "adam", _ALL)
        stolen = self._stolen
        shown = {
            "garbage": "no token at all",
            "a made-up token": f"sfp_{secrets.token_urlsafe(32)}",
            "a token cut short": self._token(connection, "adam", _ALL)[0][:-1],
            "a token that ran out": self._token(connection, "adam", _ALL, days=-1.0)[0],
            "a token that was revoked": self._revoked(connection),
            "a session's text as a token": session,
            "an attempt's token": stolen.attempt_token,
            "a join token": stolen.join_token,
            "a device code": stolen.device_code,
            "a sign-in code": self._sign_in_code(connection),
            "a webhook's secret": stolen.webhook_secret,
        }
        yield Caller("nobody")
        yield from (Caller(name, _bearer(text)) for name, text in shown.items())
        yield Caller("an administrator's session without a token", _cookie(session))
        yield Caller("a deactivated administrator", _bearer(self._kept_by_gone[0]), status=403)

    def _known(self, connection: Connection) -> Iterator[Caller]:
        for user, scopes in _KNOWN:
            headers = _bearer(self._token(connection, user, scopes)[0])
            yield self._caller(user, scopes, headers)

    def _visitors(self, connection: Connection) -> Iterator[Caller]:
        token = self._token(connection, "adam", _ALL)[0]
        shown = {
            "a made-up session": secrets.token_urlsafe(32),
            "a session that ran out": self._session(connection, "adam", _ALL, ends_in_s=-1.0),
            "a session that was ended": self._ended(connection),
            "a deactivated administrator's session": self._kept_by_gone[1],
            "a token as a session": token,
            "an attempt's token as a session": self._stolen.attempt_token,
            "a sign-in code as a session": self._sign_in_code(connection),
        }
        yield Caller("a visitor")
        yield Caller("an administrator's token without a session", _bearer(token))
        for name, text in shown.items():
            yield Caller(name, _cookie(text), form_key=build_form_key(text))

    def _readers(self, connection: Connection) -> Iterator[Caller]:
        for user, scopes in _KNOWN:
            text = self._session(connection, user, scopes)
            yield self._caller(user, scopes, _cookie(text), build_form_key(text))

    def _caller(self, user: str, scopes: frozenset[str], headers: Mapping[str, str], form_key: str = "") -> Caller:
        role = ROLES[user]
        name = f"{role} {user} with {'+'.join(sorted(scopes))}"
        return Caller(name, headers, user, role, scopes & _LET[role], form_key)

    def _token(self, connection: Connection, user: str, scopes: frozenset[str], days: float = 1.0) -> tuple[str, int]:
        issued = make_personal_token(self._ids[user], scopes, "matrix", self._now, abs(days))
        token_id = add_token(connection, issued.kept, self._now)
        if days < 0:
            past = update(tokens).where(tokens.c.id == token_id).values(expires_at=self._now - 1)
            connection.execute(past)
        return issued.text.reveal(), token_id

    def _revoked(self, connection: Connection) -> str:
        text, token_id = self._token(connection, "adam", _ALL)
        connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked_at=self._now))
        return text

    def _sign_in_code(self, connection: Connection) -> str:
        issued = make_sign_in_code(self._ids["adam"], self._now)
        add_token(connection, issued.kept, self._now)
        return issued.text.reveal()

    def _ended(self, connection: Connection) -> str:
        text = self._session(connection, "adam", _ALL)
        ended = update(tokens).where(tokens.c.hash == hash_token(text)).values(revoked_at=self._now)
        connection.execute(ended)
        return text

    def _session(self, connection: Connection, user: str, scopes: frozenset[str], ends_in_s: float = IDLE_S) -> str:
        text = secrets.token_urlsafe(32)
        kept = NewToken(
            user_id=self._ids[user],
            kind=SESSION,
            hash=hash_token(text),
            scopes=scopes,
            label="",
            expires_at=self._now + ends_in_s,
            peer="127.0.0.1",
            agent="matrix",
        )
        add_token(connection, kept, self._now)
        return text


def _bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def _cookie(text: str) -> dict[str, str]:
    return {"Cookie": f"{SESSION_COOKIE}={text}"}
