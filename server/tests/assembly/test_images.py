"""Which image an attempt is launched with, and with which login."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, update

from server.tests.assembly.support import ATTEMPT, KnownRegistries, in_flight, open_yard
from starforge.contract.ids import job_of
from starforge.contract.launch import LaunchRequest, RegistryLogin, Secret
from starforge.contract.wire import decode, encode
from starforge.errors import LaunchRefused
from starforge_console.assembly.images import AttemptImages
from starforge_console.errors import SealBroken
from starforge_console.ledger.tables import attempts, jobs

ADMITTED, RAN = ("sha256:" + one * 64 for one in "12")
LOGIN = RegistryLogin(username="puller", password=Secret("a-long-password"))
Write = Callable[[Connection], object]


def admit_with(digest: str) -> Write:
    return lambda connection: connection.execute(update(jobs).values(image_digest=digest))


def run_first(digest: str | None, number: int = 1) -> Write:
    values: dict[str, Any] = {
        "id": f"{job_of(ATTEMPT)}-{number}-aaaaaa",
        "job_id": job_of(ATTEMPT),
        "number": number,
        **dict.fromkeys(("fleet", "node", "target_name"), "x"),
        "dequeued_at": 1.0,
        "costs_retry": False,
        "gpus": "[]",
        "image_digest": digest,
    }
    return lambda connection: connection.execute(insert(attempts).values(values))


def prepare(folder: Path, *writes: Write, registries: KnownRegistries | None = None) -> LaunchRequest:
    async def prepare_now() -> LaunchRequest:
        async with open_yard(folder) as yard:
            for write in writes:
                await yard.ledger.write(write)
            yard.change(images=AttemptImages(registries or KnownRegistries()))
            return await yard.assembler.prepare(in_flight())

    return asyncio.run(prepare_now())


def test_without_an_answer_the_tag_is_launched(tmp_path: Path) -> None:
    assert prepare(tmp_path).image == "registry.test/train:1"


def test_every_attempt_launches_what_admission_learnt(tmp_path: Path) -> None:
    request = prepare(tmp_path, admit_with(ADMITTED), run_first(RAN))
    assert request.image == f"registry.test/train@{ADMITTED}"


def test_a_later_attempt_launches_what_the_first_one_ran(tmp_path: Path) -> None:
    request = prepare(tmp_path, run_first(RAN), run_first(ADMITTED, 2))
    assert request.image == f"registry.test/train@{RAN}"


def test_an_attempt_that_never_ran_pins_nothing(tmp_path: Path) -> None:
    request = prepare(tmp_path, run_first(None), run_first(RAN, 2))
    assert request.image == f"registry.test/train@{RAN}"


def test_the_login_travels_with_the_launch_and_shows_nowhere(tmp_path: Path) -> None:
    registries = KnownRegistries({"registry.test/train:1": LOGIN})
    request = prepare(tmp_path, admit_with(ADMITTED), registries=registries)
    assert request.registry_login == LOGIN
    assert "a-long-password" not in repr(request) + str(request.env) + str(request.labels) + " ".join(request.command)
    assert decode(encode(request), LaunchRequest).registry_login == LOGIN


def test_a_login_that_cannot_be_opened_refuses_the_launch(tmp_path: Path) -> None:
    registries = KnownRegistries(fault=SealBroken("a secret cannot be opened", why="the key is gone"))
    with pytest.raises(LaunchRefused) as raised:
        prepare(tmp_path, registries=registries)
    assert "registry.test" in raised.value.what
    assert "sf admin registry set registry.test" in raised.value.next_step
