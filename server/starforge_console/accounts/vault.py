"""The vault: seals what users and administrators trust the console with, so that a copy of the ledger gives nothing."""

import os
from pathlib import Path
from typing import Final

from starforge.contract.launch import Secret
from starforge.durable import write_once
from starforge_console.errors import SealBroken, VaultUnusable

KEY_FILE: Final = "vault-key"
_KEY_BYTES: Final = 32


class Vault:
    """Seals and opens values with the key in one file (0600), which the first sealing makes.

    The key lies beside the ledger and never in it. It is read at each use: a key that was put back from a copy works at
    once. Both methods wait for the disk.
    """

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file

    def seal(self, value: Secret, *, bound_to: str) -> bytes:
        """`value` for the ledger; it opens again only as what belongs to `bound_to`. Raises VaultUnusable."""
        from starforge.trust.sealing import seal  # noqa: PLC0415 - most starts of the console seal nothing

        return seal(self._load_or_make_key(), value.reveal().encode(), bound_to)

    def unseal(self, sealed: bytes, *, bound_to: str) -> Secret:
        """What was sealed.

        Raises:
            SealBroken: the key is gone or another one: what was sealed is lost, and has to be set again.
            VaultUnusable: the key cannot be read now.

        """
        from starforge.trust.sealing import NotOpened, unseal  # noqa: PLC0415 - as above

        try:
            return Secret(unseal(self._load_key(), sealed, bound_to).decode())
        except FileNotFoundError as error:
            raise self._broken(f"{self._key_file} is gone") from error
        except NotOpened as error:
            raise self._broken(f"the key in {self._key_file} is not the one it was sealed with") from error

    def _load_or_make_key(self) -> bytes:
        try:
            if not self._key_file.exists():
                write_once(self._key_file, os.urandom(_KEY_BYTES), 0o600)
            return self._load_key()
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _load_key(self) -> bytes:
        try:
            key = self._key_file.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unusable(str(error)) from error
        if len(key) != _KEY_BYTES:
            raise self._unusable(f"it holds {len(key)} bytes, not a key of {_KEY_BYTES}")
        return key

    def _broken(self, why: str) -> SealBroken:
        return SealBroken(
            "a secret that is kept here cannot be opened",
            why=why,
            next_step=f"set the secret again, or have the administrator put {self._key_file.name} back from a copy",
        )

    def _unusable(self, why: str) -> VaultUnusable:
        return VaultUnusable(
            f"the key {self._key_file} cannot be used",
            why=why,
            next_step="put it back from a copy; without one remove it, and have every secret set again",
        )
