"""What a job reads: checked again when an attempt is assembled, mounted read-only, and never more than was admitted."""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from server.tests.assembly.support import ATTEMPT, COMMIT, INPUTS, SPEC, build_assembler, in_flight, open_yard
from starforge.contract.ids import JobId
from starforge.contract.launch import LaunchRequest, Mount
from starforge.errors import LaunchRefused, NodeFault
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.inputs import CheckpointInput, HubInput, HubRef, JobInputs, PathInput

OTHER = "j765432abc"


def spec(**members: Any) -> dict[str, Any]:
    changed = copy.deepcopy(SPEC)
    del changed["spec"]["model"]
    changed["spec"] |= members
    return changed


def prepare(folder: Path, asked: dict[str, Any], inputs: JobInputs) -> LaunchRequest:
    async def go() -> LaunchRequest:
        async with open_yard(folder, asked, inputs) as yard:
            return await yard.assembler.prepare(in_flight())

    return asyncio.run(go())


def below(folder: Path, text: str) -> tuple[dict[str, Any], JobInputs]:
    path = str(folder / "data" / text)
    return spec(data={"train": path}), {"data.train": PathInput(path=path, root=str(folder / "data"))}


def test_the_root_is_mounted_whole_and_the_job_reads_the_path_below_it_as_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "data" / "v2").mkdir(parents=True)
    (tmp_path / "data" / "latest").symlink_to("v2")
    request = prepare(tmp_path, *below(tmp_path, "latest"))
    root = f"{tmp_path}/data"
    assert [mount for mount in request.mounts if "/data" in mount.target] == [Mount(root, root, read_only=True)]
    assert request.mounts[-1] == Mount(root, root, read_only=True)
    capsule = StorageLayout(tmp_path / "storage").attempt(ATTEMPT).capsule
    plan = json.loads((capsule / "capsule.json").read_text())["plan"]
    assert plan["env"] == {"FORGE_TRAIN_DATA": f"{root}/latest"}


def test_a_root_that_is_a_link_is_at_both_of_its_places_so_that_links_below_it_lead_on(tmp_path: Path) -> None:
    (tmp_path / "share" / "v2").mkdir(parents=True)
    (tmp_path / "share" / "latest").symlink_to(tmp_path / "share" / "v2")
    (tmp_path / "data").symlink_to("share")
    request = prepare(tmp_path, *below(tmp_path, "latest"))
    real = f"{tmp_path}/share"
    assert request.mounts[-2:] == (Mount(real, f"{tmp_path}/data", read_only=True), Mount(real, real, read_only=True))


def test_a_link_that_leaves_the_data_root_by_now_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").symlink_to("/etc")
    with pytest.raises(LaunchRefused, match="leaves"):
        prepare(tmp_path, *below(tmp_path, "mine"))


def test_data_that_was_removed_ends_the_job_and_a_root_that_is_away_does_not(tmp_path: Path) -> None:
    for name in ("away", "here"):
        (tmp_path / name).mkdir()
    with pytest.raises(NodeFault, match="is not there"):
        prepare(tmp_path / "away", *below(tmp_path, "gone"))
    (tmp_path / "data").mkdir()
    with pytest.raises(LaunchRefused, match="is not there"):
        prepare(tmp_path / "here", *below(tmp_path, "gone"))


def test_a_model_that_is_not_fetched_is_waited_for(tmp_path: Path) -> None:
    asked, ref = spec(model="hf://a/b"), HubRef("model", "a/b", "main")
    for commit in (None, COMMIT):
        folder = tmp_path / str(commit)
        folder.mkdir()
        with pytest.raises(NodeFault, match="not fetched"):
            prepare(folder, asked, {"model": HubInput(ref, commit)})


def test_what_the_job_was_admitted_without_is_not_looked_for(tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match="admitted without"):
        prepare(tmp_path, spec(model="/etc"), {})


def test_paths_of_the_workspace_are_told_from_the_work_directory(tmp_path: Path) -> None:
    async def go() -> dict[str, Any]:
        async with open_yard(tmp_path, spec(model="models/tiny"), {}) as yard:
            await yard.assembler.prepare(in_flight())
            return dict(json.loads((yard.layout.capsule / "capsule.json").read_text()))

    assert asyncio.run(go())["plan"]["env"] == {"FORGE_MODEL": "@FORGE_WORK_DIR@/models/tiny"}


def checkpoint_of_another_job(storage: StorageLayout) -> Path:
    return storage.attempt_number(JobId(OTHER), 2).checkpoints / "step-7"


def test_the_checkpoints_of_another_job_are_mounted_and_nothing_else_of_that_job(tmp_path: Path) -> None:
    env = []

    async def go(*, linked: bool) -> LaunchRequest:
        start = CheckpointInput(job=OTHER, attempt=2, step=7, folder="step-7")
        asked = spec(init_from=f"run/{OTHER}/checkpoint@step=7")
        root = tmp_path / str(linked)
        root.mkdir()
        async with open_yard(root, asked, {"init_from": start}) as yard:
            there = checkpoint_of_another_job(yard.storage)
            there.parent.mkdir(parents=True)
            if linked:
                there.symlink_to("/etc")
            else:
                there.mkdir()
            request = await yard.assembler.prepare(in_flight())
            env.append(json.loads((yard.layout.capsule / "capsule.json").read_text())["plan"]["env"])
            return request

    request = asyncio.run(go(linked=False))
    layout = StorageLayout(tmp_path / "False" / "storage").attempt_number(JobId(OTHER), 2)
    theirs = [mount for mount in request.mounts if OTHER in mount.source]
    # Not the checkpoint's own folder: that one the other job may replace by a link while it is being mounted.
    assert theirs == [Mount(str(layout.checkpoints), str(layout.checkpoints_mount), read_only=True)]
    assert env == [{"FORGE_INIT_FROM": f"{layout.checkpoints_mount}/step-7"}]
    with pytest.raises(LaunchRefused, match="not there any more"):
        asyncio.run(go(linked=True))


def test_a_model_that_can_never_be_had_ends_the_job_with_the_reason(tmp_path: Path) -> None:
    async def go() -> None:
        async with open_yard(tmp_path, inputs=INPUTS) as yard:
            assembler = build_assembler(yard.settings, yard.ledger, find_refusal=lambda one: f"{one.ref} is gated")
            await assembler.prepare(in_flight())

    with pytest.raises(LaunchRefused, match="is gated"):
        asyncio.run(go())
