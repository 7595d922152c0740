"""What an attempt is given of its owner's secrets: the same each time, told by name, and never without one."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from server.tests.assembly.support import ATTEMPT, INPUTS, SPEC, Yard, in_flight, open_yard
from server.tests.assembly.test_digests import begin
from starforge.contract.launch import Secret
from starforge.errors import LaunchRefused, NodeFault
from starforge_console.accounts.vault import open_vault
from starforge_console.ledger.accounts import add_user
from starforge_console.ledger.endings import note_cleaned
from starforge_console.ledger.sealed import drop_sealed, list_sealed
from starforge_console.ledger.secrets import SealedSecret, binding_of, drop_secret, load_given, put_secret
from starforge_console.ledger.views import list_attempts, list_events

SET_AT = 1_764_374_400.0  # 2025-11-29
VALUE = "hf_the-owners-own-value"
MOST = 10


def spec_with(*names: str) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC)
    spec["spec"]["secrets"] = list(names)
    return spec


def in_yard(folder: Path, names: tuple[str, ...], go: Callable[[Yard], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with open_yard(folder, spec_with(*names), INPUTS) as yard:
            await begin(yard)
            await go(yard)

    asyncio.run(scenario())


async def keep(yard: Yard, name: str, value: str = VALUE, user_id: int = 1) -> None:
    vault = open_vault(yard.storage.root.parent / "vault-key", yard.ledger)
    sealed = await asyncio.to_thread(vault.seal, Secret(value), bound_to=binding_of(user_id, name))
    secret = SealedSecret(user_id=user_id, name=name, set_at=SET_AT, sealed=sealed)
    await yard.ledger.write(lambda c: put_secret(c, secret, MOST))


async def passed(yard: Yard) -> list[str]:
    return [
        event.note
        for event in await yard.ledger.read(lambda c: list_events(c, in_flight().id))
        if "passed" in event.note
    ]


def test_an_attempt_is_given_its_owners_secrets_beside_its_token(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        await keep(yard, "NOT_NAMED")
        request = await yard.assembler.prepare(in_flight())
        assert set(request.secrets) == {"HF_TOKEN", "ingest-token"}
        assert request.secrets["HF_TOKEN"].reveal() == VALUE
        assert VALUE not in repr(request)

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_what_was_given_is_told_once_with_when_it_was_set(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        await keep(yard, "A")
        for _ in range(2):
            await yard.assembler.prepare(in_flight())
        assert await passed(yard) == ["passed 2 secrets: A (set 2025-11-29), HF_TOKEN (set 2025-11-29)"]
        (attempt,) = await yard.ledger.read(lambda c: list_attempts(c, in_flight().id))
        assert [(one.name, one.set_at) for one in attempt.secrets] == [("A", SET_AT), ("HF_TOKEN", SET_AT)]

    in_yard(tmp_path, ("HF_TOKEN", "A"), go)


def test_a_launch_that_is_repeated_gives_what_the_first_one_gave(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        first = await yard.assembler.prepare(in_flight())
        await keep(yard, "HF_TOKEN", "another value by now")
        assert await yard.assembler.prepare(in_flight()) == first
        await yard.ledger.write(lambda c: drop_secret(c, 1, "HF_TOKEN"))
        assert await yard.assembler.prepare(in_flight()) == first

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_a_secret_that_was_removed_after_admission_refuses_the_launch_by_name(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "A")
        other = await yard.ledger.write(lambda c: add_user(c, "bob", "member", 1.0))
        await keep(yard, "HF_TOKEN", user_id=other)
        with pytest.raises(LaunchRefused, match="secret HF_TOKEN is not there any more") as refused:
            await yard.assembler.prepare(in_flight())
        assert "sf secret set HF_TOKEN" in refused.value.next_step
        assert (await passed(yard), yard.layout.capsule.exists()) == ([], False)

    in_yard(tmp_path, ("A", "HF_TOKEN"), go)


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_secret_that_cannot_be_opened_refuses_the_launch_by_name(tmp_path: Path, key: bytes | None) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        file = tmp_path / "vault-key"
        file.unlink() if key is None else file.write_bytes(key)
        with pytest.raises(LaunchRefused, match="secret HF_TOKEN is not to be opened"):
            await yard.assembler.prepare(in_flight())
        assert await passed(yard) == []

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_an_attempt_whose_values_were_given_up_is_given_no_other_ones(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        await yard.assembler.prepare(in_flight())
        (tmp_path / "vault-key").unlink()
        await yard.ledger.write(lambda c: drop_sealed(c, list_sealed(c), 9.0))
        await keep(yard, "HF_TOKEN", "another value by now")
        with pytest.raises(LaunchRefused, match="secret HF_TOKEN is not there any more"):
            await yard.assembler.prepare(in_flight())
        (attempt,) = await yard.ledger.read(lambda c: list_attempts(c, in_flight().id))
        assert [one.name for one in attempt.secrets] == ["HF_TOKEN"]

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_a_vault_that_cannot_be_used_now_keeps_the_job_waiting(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        whole = (tmp_path / "vault-key").read_bytes()
        (tmp_path / "vault-key").write_bytes(b"short")
        with pytest.raises(NodeFault, match="holds 5 bytes"):
            await yard.assembler.prepare(in_flight())
        (tmp_path / "vault-key").write_bytes(whole)
        assert (await yard.assembler.prepare(in_flight())).secrets["HF_TOKEN"].reveal() == VALUE

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_a_sealed_value_of_another_user_opens_for_nobody_else(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        vault = open_vault(tmp_path / "vault-key", yard.ledger)
        sealed = vault.seal(Secret(VALUE), bound_to=binding_of(2, "HF_TOKEN"))
        stolen = SealedSecret(user_id=1, name="HF_TOKEN", set_at=SET_AT, sealed=sealed)
        await yard.ledger.write(lambda c: put_secret(c, stolen, MOST))
        with pytest.raises(LaunchRefused):
            await yard.assembler.prepare(in_flight())

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_the_words_to_mask_are_those_that_were_given_whatever_is_set_meanwhile(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "KEY", "-----BEGIN\nline-of-the-key\nshort\n")
        await yard.assembler.prepare(in_flight())
        await keep(yard, "KEY", "another value by now")
        words = await yard.assembler.find_words(ATTEMPT)
        assert yard.assembler.token(ATTEMPT) in words
        assert {"-----BEGIN\nline-of-the-key\nshort\n", "line-of-the-key", "-----BEGIN"} <= set(words)
        assert "short" not in words

    in_yard(tmp_path, ("KEY",), go)


def test_words_that_could_not_be_read_are_looked_for_again_once_the_key_is_back(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        await yard.assembler.prepare(in_flight())
        (tmp_path / "vault-key").rename(tmp_path / "aside")
        assert VALUE not in await yard.assembler.find_words(ATTEMPT)
        (tmp_path / "aside").rename(tmp_path / "vault-key")
        assert VALUE in await yard.assembler.find_words(ATTEMPT)

    in_yard(tmp_path, ("HF_TOKEN",), go)


def test_after_the_cleanup_names_and_times_alone_are_kept_with_the_attempt(tmp_path: Path) -> None:
    async def go(yard: Yard) -> None:
        await keep(yard, "HF_TOKEN")
        await yard.assembler.prepare(in_flight())
        assert await yard.ledger.read(lambda c: load_given(c, ATTEMPT))
        await yard.ledger.write(lambda c: note_cleaned(c, ATTEMPT, 9.0))
        assert not await yard.ledger.read(lambda c: load_given(c, ATTEMPT))
        (attempt,) = await yard.ledger.read(lambda c: list_attempts(c, in_flight().id))
        assert [one.name for one in attempt.secrets] == ["HF_TOKEN"]

    in_yard(tmp_path, ("HF_TOKEN",), go)
