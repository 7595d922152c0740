"""What an attempt is given of its owner's secrets, and which words therefore nothing may show that it says."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from starforge.contract.ids import AttemptId, job_of, number_of
from starforge.contract.launch import Secret
from starforge.errors import LaunchRefused, NodeFault
from starforge.runner.masking import build_patterns
from starforge.said.sentence import say, say_list
from starforge_console.clock import Clock
from starforge_console.errors import SealBroken, VaultUnusable
from starforge_console.ledger.database import Database
from starforge_console.ledger.secrets import Recipient, SealedSecret, find_secrets, load_given

REMEMBERED: Final = 256
"""So many attempts' words are at hand; those of others are read and opened anew."""

_log = structlog.get_logger("secrets")


class Opens(Protocol):
    """Who can open what is sealed (accounts.vault)."""

    def unseal(self, sealed: bytes, *, bound_to: str) -> Secret:
        """What was sealed; waits for the disk. Raises SealBroken, VaultUnusable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSecrets:
    """What one attempt is given, opened, and as the ledger is to keep it."""

    to: Recipient
    at: float
    sealed: Sequence[SealedSecret]
    opened: Mapping[str, Secret] = field(repr=False)


class AttemptSecrets:
    """The secrets of attempts."""

    def __init__(self, ledger: Database, vault: Opens, clock: Clock) -> None:
        self._ledger = ledger
        self._vault = vault
        self._clock = clock
        self._words: OrderedDict[AttemptId, Sequence[str]] = OrderedDict()

    async def open_for(self, attempt: AttemptId, names: Collection[str]) -> GivenSecrets:
        """What the attempt is given: for each name its owner's value; the same each time.

        Raises:
            LaunchRefused: its owner has removed one meanwhile, or one will never open.
            NodeFault: the vault cannot be used now; its administrator must look, and the job waits.

        """
        to = Recipient(attempt=attempt, job=job_of(attempt), number=number_of(attempt))
        found = await self._ledger.read(lambda c: find_secrets(c, to, names)) if names else ()
        missing = sorted(set(names) - {one.name for one in found})
        if missing:
            raise _explain_missing(missing)
        opened = await asyncio.to_thread(lambda: {one.name: self._open(one) for one in found})
        return GivenSecrets(to=to, at=self._clock.now(), sealed=tuple(found), opened=opened)

    async def find_words(self, attempt: AttemptId) -> Sequence[str]:
        """What nothing may show that the attempt says: the values that it was given, whole and by lines."""
        if attempt not in self._words:
            given = await self._ledger.read(lambda c: load_given(c, attempt))
            words, is_whole = await asyncio.to_thread(self._list_words, attempt, given) if given else ((), True)
            if not is_whole:  # the key may be put back
                return words
            self._words[attempt] = words
            while len(self._words) > REMEMBERED:
                self._words.popitem(last=False)
        self._words.move_to_end(attempt)
        return self._words[attempt]

    def _open(self, one: SealedSecret) -> Secret:
        try:
            return self._vault.unseal(one.sealed, bound_to=one.bound_to)
        except VaultUnusable as error:
            raise NodeFault(error.what, why=error.why, next_step=error.next_step) from error
        except SealBroken as error:
            raise _explain_shut(one.name, error) from error

    def _list_words(self, attempt: AttemptId, given: Sequence[SealedSecret]) -> tuple[Sequence[str], bool]:
        values = []
        for one in given:
            try:
                values.append(self._vault.unseal(one.sealed, bound_to=one.bound_to).reveal().encode())
            except (SealBroken, VaultUnusable) as error:  # its runner has masked it; this is the second look
                _log.error(
                    "a secret is not looked for in an attempt's words", attempt=attempt, name=one.name, why=error.why
                )
        return tuple(pattern.decode() for pattern in build_patterns(values)), len(values) == len(given)


def _explain_missing(names: Sequence[str]) -> LaunchRefused:
    listed = say_list("list.comma", names)
    return LaunchRefused(
        say("launch.no_secret", names=listed) if len(names) == 1 else say("launch.no_secrets", names=listed),
        why=say("launch.secret_why"),
        next_step=say("launch.secret_next", command=f"sf secret set {names[0]}"),
    )


def _explain_shut(name: str, error: SealBroken) -> LaunchRefused:
    return LaunchRefused(
        say("launch.secret_shut", name=name, why=error.why),
        why=say("launch.secret_why"),
        next_step=say("launch.secret_shut_next", next_step=error.next_step, command=f"sf secret set {name}"),
    )
