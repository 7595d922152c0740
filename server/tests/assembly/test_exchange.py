"""Somebody who may write below a data root exchanges a folder after the console has looked; a real engine mounts it."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.tests.containers.builders import make_host, make_request, make_settings, memory_folder, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.ready import ready_engine
from server.tests.assembly.test_inputs import below, prepare
from starforge.contract.launch import Mount
from starforge.contract.observation import Phase


@pytest.mark.engine
def test_what_is_exchanged_between_look_and_start_shows_nothing_of_the_machine(tmp_path: Path) -> None:
    with ready_engine() as machine:
        for exchanged in ("set", "set/inner", "set/inner/rows.txt"):
            folder = tmp_path / exchanged.replace("/", "-")
            (folder / "data" / "set" / "inner").mkdir(parents=True)
            said = exchange_and_read(folder, exchanged, machine)
            assert "No such file" in said, exchanged
            assert "of the machine" not in said, exchanged


def exchange_and_read(folder: Path, exchanged: str, machine: PrivateEngine) -> str:
    """What a job reads at the path that it named, when `exchanged` became a link out of the root before the start."""
    rows = folder / "data" / "set" / "inner" / "rows.txt"
    rows.write_text("what was named")
    outside = folder / "outside"
    (outside / "inner").mkdir(parents=True)
    for place in (outside, outside / "inner"):
        (place / "rows.txt").write_text("of the machine")
    mounts = prepare(folder, *below(folder, "set/inner/rows.txt")).mounts
    (folder / "data" / exchanged).rename(folder / "data" / "aside")
    (folder / "data" / exchanged).symlink_to(outside / "rows.txt" if exchanged.endswith(".txt") else outside)
    job = make_request(folder, f"cat {rows} >said 2>&1; true")
    own = Mount(job.workdir, job.workdir, read_only=False)
    inputs = [mount for mount in mounts if mount.target.startswith(f"{folder}/data")]
    with memory_folder() as secrets:
        host = make_host(machine.engine, make_settings(folder, secrets))
        host.launch(replace(job, mounts=(own, *inputs)))
        wait_for(host, job.attempt, Phase.EXITED)
        host.cleanup(job.attempt)
        host.close()
    return (Path(job.workdir) / "said").read_text()
