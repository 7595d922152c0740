"""The tokens that calls carry: given, read from a file, or signed with the cluster's key and renewed in time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from starforge.contract.launch import Secret
from starforge.said.sentence import say
from starforge_console.executors.slurm.replies import SlurmSilent
from starforge_console.executors.slurm.settings import SigningKey, StaticToken, TokenFile, TokenSource

LEAST_KEY_BYTES: Final = 14
"""112 bits: below that a key can be guessed, and the library that signs says so."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Made:
    token: Secret
    renew_at: float


class Tokens:
    """The token of each user, as the settings say where it comes from. Files may lie on a storage that hangs."""

    def __init__(self, source: TokenSource, now: Callable[[], float] = time.time) -> None:
        """`now` is the clock that the cluster's machines keep, in Unix seconds."""
        self._source = source
        self._now = now
        self._made: dict[str, _Made] = {}

    def load(self, user: str) -> Secret | None:
        """The token for `user`; None where the daemon needs none. Raises SlurmSilent when it cannot be had."""
        source = self._source
        match source:
            case None:
                return None
            case StaticToken():
                return source.token
            case TokenFile():
                return Secret(_read(lambda: _read_token(source.path), str(source.path)))
            case SigningKey():
                return self._find_fresh(user) or self._sign(source, user)

    def forget(self) -> None:
        """Make the next ones anew: what was made is refused."""
        self._made.clear()

    def _find_fresh(self, user: str) -> Secret | None:
        made = self._made.get(user)
        return made.token if made is not None and self._now() < made.renew_at else None

    def _sign(self, source: SigningKey, user: str) -> Secret:
        from joserfc import jwk, jwt  # noqa: PLC0415 - brings in all of cryptography

        now = int(self._now())
        key = _read(lambda: jwk.OctKey.import_key(_read_key(source.path)), str(source.path))
        claims = {"iat": now, "exp": now + int(source.lifetime_s), "sun": user}
        token = Secret(jwt.encode({"alg": "HS256"}, claims, key))
        self._made[user] = _Made(token, now + source.lifetime_s / 2)
        return token


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="ascii").strip().removeprefix("SLURM_JWT=")
    if not token or any(map(str.isspace, token)):
        raise ValueError
    return token


def _read_key(path: Path) -> bytes:
    content = path.read_bytes()
    if not content:
        raise ValueError
    if len(content) < LEAST_KEY_BYTES:
        raise SlurmSilent(
            say("slurm.key_too_short", path=str(path), size=len(content), least=LEAST_KEY_BYTES),
            next_step=say("slurm.key_too_short_next"),
        )
    return content


def _read(read: Callable[[], _T], path: str) -> _T:
    try:
        return read()
    except (OSError, ValueError) as error:  # among these what is no text, or no key
        why = error.strerror or type(error).__name__ if isinstance(error, OSError) else say("slurm.no_token_there")
        raise SlurmSilent(
            say("slurm.token_unreadable", path=path, why=why), next_step=say("slurm.token_unreadable_next")
        ) from error
