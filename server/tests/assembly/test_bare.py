"""Attempts on machines that run jobs without a container: links where mounts would be, and nothing else differs."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from server.tests.assembly.support import SPEC, Yard, in_flight, open_yard
from starforge.contract.ids import Digest
from starforge.errors import LaunchRefused, NodeFault


def within(folder: Path, work: Callable[[Yard], Awaitable[None]], spec: dict[str, Any] | None = None) -> None:
    async def go() -> None:
        async with open_yard(folder, spec) as yard:
            yard.change(bare_kinds=frozenset({"node", "local", "slurm"}))
            await work(yard)

    asyncio.run(go())


def test_everything_lies_where_the_job_looks_and_nothing_is_mounted(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        request = await yard.assembler.prepare(in_flight())
        layout = yard.layout
        assert request.mounts == ()
        assert (layout.root / ".starforge" / "capsule" / "bootstrap.sh").samefile(layout.capsule / "bootstrap.sh")
        assert (layout.root / "ckpt").samefile(layout.checkpoints)
        capsule = json.loads((layout.capsule / "capsule.json").read_text())
        assert yard.storage.blob(Digest(SPEC["spec"]["workspace"]["digest"])) == Path(capsule["workspace"]["path"])
        assert await yard.assembler.prepare(in_flight()) == request

    within(tmp_path, work)


def test_an_older_attempts_checkpoints_are_read_where_they_lie(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        older = yard.storage.attempt_number(in_flight().id, 1)
        (older.checkpoints / "step-1").mkdir(parents=True)
        await yard.assembler.prepare(in_flight())
        capsule = json.loads((yard.layout.capsule / "capsule.json").read_text())
        assert capsule["resume_from"] == [str(older.checkpoints)]

    spec = copy.deepcopy(SPEC)
    spec["spec"]["lifecycle"]["resume"] = "auto"
    within(tmp_path, work, spec)


def test_each_node_has_a_folder_of_its_own(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        await yard.assembler.prepare(in_flight())
        assert sorted(one.name for one in yard.layout.root.glob("node-*")) == ["node-0", "node-1", "node-2"]

    spec = copy.deepcopy(SPEC)
    spec["spec"]["resources"]["pools"] = [
        {"name": "a", "nodes": 2, "gpus_per_node": 1},
        {"name": "b", "nodes": 1, "gpus_per_node": 0},
    ]
    spec["spec"]["resources"]["roles"] = {"train": "a"}
    within(tmp_path, work, spec)


@pytest.mark.parametrize("place", [Path(".starforge", "capsule"), Path("ckpt")])
def test_a_link_that_leads_elsewhere_is_refused(tmp_path: Path, place: Path) -> None:
    async def work(yard: Yard) -> None:
        trap = yard.layout.root / place
        trap.parent.mkdir(parents=True)
        trap.symlink_to("/etc")
        with pytest.raises(NodeFault, match="no link to"):
            await yard.assembler.prepare(in_flight())

    within(tmp_path, work)


def test_a_cluster_runs_each_job_as_its_submitters_own_user(tmp_path: Path) -> None:
    async def work(yard: Yard) -> None:
        yard.change(submitters={"node": {"ada": (2001, 100)}, "local": {"ada": (2001, 100)}})
        assert (await yard.assembler.prepare(in_flight())).user == "2001:100"
        yard.change(submitters={"node": {"bob": (1, 1)}, "local": {"bob": (1, 1)}})
        with pytest.raises(LaunchRefused, match="no user of the cluster is known for ada"):
            await yard.assembler.prepare(in_flight())

    within(tmp_path, work)
