"""What the vault seals opens with its key and as what it was sealed for, and otherwise not at all."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from starforge.contract.launch import Secret
from starforge_console.accounts.vault import Vault
from starforge_console.errors import SealBroken, VaultKeyLost, VaultUnusable
from starforge_console.ledger.sealed import HEAD_BYTES, SealedRow

VALUE = "hf_naïve-value-of-a-user"


class Kept:
    """What is kept sealed, as the ledger would give it."""

    def __init__(self) -> None:
        self.rows: list[SealedRow] = []

    def __call__(self, but: bytes) -> list[SealedRow]:
        return [row for row in self.rows if row.sealed[:HEAD_BYTES] != but]

    def add(self, sealed: bytes, bound_to: str) -> bytes:
        self.rows.append(SealedRow(kind="secret", key=(1, bound_to), whose=bound_to, bound_to=bound_to, sealed=sealed))
        return sealed


def build_vault(folder: Path, kept: Kept | None = None) -> Vault:
    return Vault(folder / "key", kept or Kept())


def seal_as_before_keys_had_ids(key: bytes, value: str, bound_to: str) -> bytes:
    nonce = b"n" * 12
    return b"\x01" + nonce + AESGCM(key).encrypt(nonce, value.encode(), bound_to.encode())


def test_what_was_sealed_opens_as_what_it_was_sealed_for(tmp_path: Path) -> None:
    sealed = build_vault(tmp_path).seal(Secret(VALUE), bound_to="user 1: HF_TOKEN")
    assert build_vault(tmp_path).unseal(sealed, bound_to="user 1: HF_TOKEN").reveal() == VALUE
    assert VALUE.encode() not in sealed


def test_the_same_value_is_sealed_differently_each_time(tmp_path: Path) -> None:
    vault = build_vault(tmp_path)
    assert vault.seal(Secret(VALUE), bound_to="a") != vault.seal(Secret(VALUE), bound_to="a")


def test_what_belongs_to_one_user_does_not_open_as_another_ones(tmp_path: Path) -> None:
    vault = build_vault(tmp_path)
    sealed = vault.seal(Secret(VALUE), bound_to="user 1: HF_TOKEN")
    with pytest.raises(SealBroken):
        vault.unseal(sealed, bound_to="user 2: HF_TOKEN")


def test_the_key_is_made_whole_for_the_console_alone(tmp_path: Path) -> None:
    build_vault(tmp_path).seal(Secret(VALUE), bound_to="a")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_without_its_key_nothing_opens_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    vault = build_vault(tmp_path)
    sealed = vault.seal(Secret(VALUE), bound_to="a")
    (tmp_path / "key").unlink()
    with pytest.raises(SealBroken, match="put key back from a copy"):
        vault.unseal(sealed, bound_to="a")
    (tmp_path / "key").write_bytes(b"k" * 32)
    with pytest.raises(SealBroken, match="not the one it was sealed with"):
        vault.unseal(sealed, bound_to="a")


def test_no_new_key_is_made_while_something_is_kept_that_the_lost_one_sealed(tmp_path: Path) -> None:
    kept = Kept()
    vault = build_vault(tmp_path, kept)
    sealed = kept.add(vault.seal(Secret(VALUE), bound_to="a"), "a")
    (tmp_path / "key").rename(tmp_path / "aside")
    with pytest.raises(VaultKeyLost, match="key is gone, and it keeps 1 value sealed") as raised:
        vault.seal(Secret("another"), bound_to="b")
    assert "vault forget-unreadable" in raised.value.next_step
    assert not (tmp_path / "key").exists()
    (tmp_path / "aside").rename(tmp_path / "key")
    vault.seal(Secret("another"), bound_to="b")
    assert vault.unseal(sealed, bound_to="a").reveal() == VALUE


def test_a_look_at_the_key_says_what_a_sealing_would_and_makes_none(tmp_path: Path) -> None:
    kept = Kept()
    vault = build_vault(tmp_path, kept)
    vault.check()
    assert not (tmp_path / "key").exists()
    kept.add(vault.seal(Secret(VALUE), bound_to="a"), "a")
    vault.check()
    (tmp_path / "key").unlink()
    with pytest.raises(VaultKeyLost):
        vault.check()


def test_another_key_seals_nothing_while_something_is_kept_that_it_does_not_open(tmp_path: Path) -> None:
    kept = Kept()
    vault = build_vault(tmp_path, kept)
    kept.add(vault.seal(Secret(VALUE), bound_to="a"), "a")
    (tmp_path / "key").write_bytes(b"k" * 32)
    with pytest.raises(VaultKeyLost, match="is another one"):
        vault.seal(Secret("another"), bound_to="b")
    kept.rows.clear()
    assert vault.unseal(vault.seal(Secret("another"), bound_to="b"), bound_to="b").reveal() == "another"


def test_one_row_that_was_changed_does_not_keep_the_right_key_from_sealing(tmp_path: Path) -> None:
    kept = Kept()
    vault = build_vault(tmp_path, kept)
    sealed = vault.seal(Secret(VALUE), bound_to="a")
    kept.add(sealed[:-1] + bytes([sealed[-1] ^ 1]), "a")
    vault.seal(Secret("another"), bound_to="b")
    assert [row.whose for row in vault.list_unreadable()] == ["a"]


@pytest.mark.parametrize(("key", "is_lost"), [(b"o" * 32, False), (b"k" * 32, True)])
def test_what_says_not_which_key_sealed_it_counts_as_what_opens_or_not(
    tmp_path: Path, key: bytes, *, is_lost: bool
) -> None:
    kept = Kept()
    sealed = kept.add(seal_as_before_keys_had_ids(b"o" * 32, VALUE, "a"), "a")
    (tmp_path / "key").write_bytes(key)
    vault = build_vault(tmp_path, kept)
    if is_lost:
        with pytest.raises(VaultKeyLost):
            vault.seal(Secret("another"), bound_to="b")
        assert [row.whose for row in vault.list_unreadable()] == ["a"]
        return
    assert vault.unseal(sealed, bound_to="a").reveal() == VALUE
    vault.seal(Secret("another"), bound_to="b")
    assert not vault.list_unreadable()


def test_a_key_that_cannot_be_read_now_says_of_nothing_that_it_is_lost(tmp_path: Path) -> None:
    kept = Kept()
    vault = build_vault(tmp_path, kept)
    kept.add(vault.seal(Secret(VALUE), bound_to="a"), "a")
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(VaultUnusable, match="holds 5 bytes"):
        vault.list_unreadable()


@pytest.mark.parametrize(
    "tampered", [lambda sealed: sealed[:-1] + bytes([sealed[-1] ^ 1]), lambda _: b"", lambda s: s[:9]]
)
def test_bytes_that_were_changed_do_not_open(tmp_path: Path, tampered: object) -> None:
    assert callable(tampered)
    vault = build_vault(tmp_path)
    with pytest.raises(SealBroken):
        vault.unseal(tampered(vault.seal(Secret(VALUE), bound_to="a")), bound_to="a")


def test_a_key_that_was_cut_short_is_neither_used_nor_replaced(tmp_path: Path) -> None:
    vault = build_vault(tmp_path)
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(VaultUnusable, match="holds 5 bytes"):
        vault.seal(Secret(VALUE), bound_to="a")
    assert (tmp_path / "key").read_bytes() == b"short"
