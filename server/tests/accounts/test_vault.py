"""What the vault seals opens with its key and as what it was sealed for, and otherwise not at all."""

import stat
from pathlib import Path

import pytest

from starforge.contract.launch import Secret
from starforge_console.accounts.vault import Vault
from starforge_console.errors import SealBroken, VaultUnusable

VALUE = "hf_naïve-value-of-a-user"


def test_what_was_sealed_opens_as_what_it_was_sealed_for(tmp_path: Path) -> None:
    sealed = Vault(tmp_path / "key").seal(Secret(VALUE), bound_to="user 1: HF_TOKEN")
    assert Vault(tmp_path / "key").unseal(sealed, bound_to="user 1: HF_TOKEN").reveal() == VALUE
    assert VALUE.encode() not in sealed


def test_the_same_value_is_sealed_differently_each_time(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    assert vault.seal(Secret(VALUE), bound_to="a") != vault.seal(Secret(VALUE), bound_to="a")


def test_what_belongs_to_one_user_does_not_open_as_another_ones(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    sealed = vault.seal(Secret(VALUE), bound_to="user 1: HF_TOKEN")
    with pytest.raises(SealBroken):
        vault.unseal(sealed, bound_to="user 2: HF_TOKEN")


def test_the_key_is_made_whole_for_the_console_alone(tmp_path: Path) -> None:
    Vault(tmp_path / "key").seal(Secret(VALUE), bound_to="a")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_without_its_key_nothing_opens_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    sealed = vault.seal(Secret(VALUE), bound_to="a")
    (tmp_path / "key").unlink()
    with pytest.raises(SealBroken, match="set the secret again"):
        vault.unseal(sealed, bound_to="a")
    vault.seal(Secret("another"), bound_to="b")  # makes a new key
    with pytest.raises(SealBroken, match="not the one it was sealed with"):
        vault.unseal(sealed, bound_to="a")


@pytest.mark.parametrize(
    "tampered", [lambda sealed: sealed[:-1] + bytes([sealed[-1] ^ 1]), lambda _: b"", lambda s: s[:9]]
)
def test_bytes_that_were_changed_do_not_open(tmp_path: Path, tampered: object) -> None:
    assert callable(tampered)
    vault = Vault(tmp_path / "key")
    with pytest.raises(SealBroken):
        vault.unseal(tampered(vault.seal(Secret(VALUE), bound_to="a")), bound_to="a")


def test_a_key_that_was_cut_short_is_neither_used_nor_replaced(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(VaultUnusable, match="holds 5 bytes"):
        vault.seal(Secret(VALUE), bound_to="a")
    assert (tmp_path / "key").read_bytes() == b"short"
