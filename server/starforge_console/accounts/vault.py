"""The vault: seals what users and administrators trust the console with, so that a copy of the ledger gives nothing."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from starforge.contract.launch import Secret
from starforge.durable import write_once
from starforge.said.sentence import say
from starforge_console.errors import SealBroken, VaultKeyLost, VaultUnusable
from starforge_console.ledger.database import Database
from starforge_console.ledger.sealed import DROPPED, SealedRow, list_sealed

KEY_FILE: Final = "vault-key"
FORGET: Final = "starforge-console vault forget-unreadable"
_KEY_BYTES: Final = 32


class Vault:
    """Seals and opens values with the key in one file (0600), which the first sealing makes.

    The key lies beside the ledger and never in it. It is read at each use: a key that was put back from a copy works at
    once. Nothing is sealed while something is kept that the key does not open: of two keys each would open a part, and
    whichever is put back would lose the other's. All methods wait for the disk.
    """

    def __init__(self, key_file: Path, list_kept: Callable[[bytes], Sequence[SealedRow]]) -> None:
        """`list_kept` gives what is kept sealed and does not begin with those bytes."""
        self._key_file = key_file
        self._list_kept = list_kept

    def seal(self, value: Secret, *, bound_to: str) -> bytes:
        """`value` for the ledger; it opens again only as what belongs to `bound_to`.

        Raises:
            VaultKeyLost: something is kept that the key does not open, or there is no key for it.
            VaultUnusable: the key cannot be read or made now.

        """
        from starforge.trust.sealing import seal  # noqa: PLC0415 - most starts of the console seal nothing

        return seal(self._load_or_make_key(), value.reveal().encode(), bound_to)

    def unseal(self, sealed: bytes, *, bound_to: str) -> Secret:
        """What was sealed.

        Raises:
            SealBroken: the key is gone or another one: what was sealed is lost, unless the key is put back.
            VaultUnusable: the key cannot be read now.

        """
        from starforge.trust.sealing import NotOpened, unseal  # noqa: PLC0415 - as above

        if sealed == DROPPED:
            raise self._broken(say("vault.given_up"))
        try:
            return Secret(unseal(self._load_key(), sealed, bound_to).decode())
        except FileNotFoundError as error:
            raise self._broken(say("vault.no_key", file=str(self._key_file))) from error
        except NotOpened as error:
            raise self._broken(say("vault.other_key", file=str(self._key_file))) from error

    def list_unreadable(self) -> Sequence[SealedRow]:
        """Everything kept that does not open now. Raises VaultUnusable: whether it opens cannot be said."""
        kept = self._list_kept(DROPPED)
        try:
            return self._without_those_it_opens(self._load_key(), kept)
        except FileNotFoundError:
            return kept

    def check(self) -> None:
        """Raise what a sealing would raise now: VaultKeyLost or VaultUnusable. Makes no key."""
        self._find_key()

    def _load_or_make_key(self) -> bytes:
        key = self._find_key()
        if key is not None:
            return key
        try:
            write_once(self._key_file, os.urandom(_KEY_BYTES), 0o600)
            return self._load_key()
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _find_key(self) -> bytes | None:
        """The key, which opens everything that is kept; None where nothing is kept and no key was made yet."""
        try:
            key = self._load_key()
        except FileNotFoundError as error:
            kept = self._list_kept(DROPPED)
            if kept:
                raise self._lost(say("vault.no_key", file=str(self._key_file)), kept) from error
            return None
        from starforge.trust.sealing import build_head  # noqa: PLC0415 - as above

        foreign = self._without_those_it_opens(key, self._list_kept(build_head(key)))
        if foreign:
            raise self._lost(say("vault.lost_key", file=str(self._key_file)), foreign)
        return key

    def _load_key(self) -> bytes:
        try:
            key = self._key_file.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unusable(str(error)) from error
        if len(key) != _KEY_BYTES:
            raise self._unusable(say("vault.unusable_bytes", n=len(key), wanted=_KEY_BYTES))
        return key

    def _without_those_it_opens(self, key: bytes, rows: Sequence[SealedRow]) -> Sequence[SealedRow]:
        from starforge.trust.sealing import NotOpened, unseal  # noqa: PLC0415 - as above

        unreadable = []
        for row in rows:
            try:
                unseal(key, row.sealed, row.bound_to)
            except NotOpened:
                unreadable.append(row)
        return unreadable

    def _broken(self, why: str) -> SealBroken:
        return SealBroken(say("vault.broken"), why=why, next_step=say("vault.broken_next", file=self._key_file.name))

    def _lost(self, why: str, unreadable: Sequence[SealedRow]) -> VaultKeyLost:
        n = len(unreadable)
        values = say("vault.value", n=n) if n == 1 else say("vault.values", n=n)
        return VaultKeyLost(
            say("vault.lost"),
            why=say("vault.lost_why", why=why, values=values),
            next_step=say("vault.lost_next", file=self._key_file.name, command=FORGET),
        )

    def _unusable(self, why: str) -> VaultUnusable:
        return VaultUnusable(
            say("vault.unusable", file=str(self._key_file)),
            why=why,
            next_step=say("vault.unusable_next", command=FORGET),
        )


def open_vault(key_file: Path, ledger: Database) -> Vault:
    """The vault of what is sealed in the ledger."""
    return Vault(key_file, lambda but: ledger.read_now(lambda c: list_sealed(c, but)))
