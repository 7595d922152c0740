"""Backends that are asked beforehand whether they would take a job."""

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from server.tests.assembly.support import SPEC, Yard, open_yard
from starforge.contract.capsule import INGEST_TOKEN_NAME
from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import LaunchRequest, Secret
from starforge_console.executors.fake import FakeExecutor
from starforge_console.fleets import rehearsals
from starforge_console.fleets.rehearsals import Rehearsals


class _Asked(FakeExecutor):
    """A backend that refuses one image."""

    requests: tuple[LaunchRequest, ...] = ()

    async def rehearse(self, request: LaunchRequest) -> str | None:
        self.requests = (*self.requests, request)
        return f"no image {request.image}" if request.image == "bad:1" else None


def ask(tmp_path: Path, backend: FakeExecutor, changes: dict[str, Any], settings: dict[str, Any] | None = None) -> str:
    document = copy.deepcopy(SPEC)
    document["spec"].update(changes)
    spec = JobSpec.model_validate(document)

    async def go() -> str:
        async with open_yard(tmp_path) as yard:
            yard.change(**settings or {})
            before = list_files(yard)
            answer = await Rehearsals({"lab": backend}, yard.assembler.build_trial).ask(spec, "ann", "lab")
            assert list_files(yard) == before
            return answer

    return asyncio.run(go())


def list_files(yard: Yard) -> list[str]:
    return sorted(map(str, yard.storage.root.rglob("*")))


def test_a_backend_that_can_be_asked_sees_what_it_would_be_sent_without_a_secret(tmp_path: Path) -> None:
    backend = _Asked("lab", [])
    assert not ask(tmp_path, backend, {})
    (request,) = backend.requests
    assert (request.image, request.fleet, request.number) == ("registry.test/train:1", "lab", 1)
    assert request.secrets == {INGEST_TOKEN_NAME: Secret("")}


def test_its_refusal_is_told_in_its_words(tmp_path: Path) -> None:
    assert ask(tmp_path, _Asked("lab", []), {"framework": {"kind": "custom", "image": "bad:1"}}) == "no image bad:1"


def test_what_no_launch_could_be_made_of_is_told_as_well(tmp_path: Path) -> None:
    assert "ann" in ask(tmp_path, _Asked("lab", []), {}, {"submitters": {"local": {"bob": (1, 1)}}})


def test_one_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FakeExecutor):
        async def rehearse(self, request: LaunchRequest) -> str | None:
            del request
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    monkeypatch.setattr(rehearsals, "PATIENCE_S", 0)
    assert not ask(tmp_path, Silent("lab", []), {})


def test_a_backend_that_cannot_be_asked_says_nothing(tmp_path: Path) -> None:
    assert not ask(tmp_path, FakeExecutor("lab", []), {})
    assert not asyncio.run(Rehearsals({}, lambda *_: None).ask(JobSpec.model_validate(SPEC), "ann", "gone"))  # type: ignore[arg-type]
