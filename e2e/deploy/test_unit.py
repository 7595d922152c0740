"""The unit that the console prints, under a real systemd: it starts, serves, comes back and stops, and jobs go on."""

import re
from pathlib import Path

import pytest

from e2e.support.console import wait_for
from e2e.support.deployed import REPOSITORY, DeployedConsole
from e2e.support.images import HOST_IMAGE
from e2e.support.projects import make_experiment
from e2e.support.steps import load_steps

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.allow_hosts(["127.0.0.1", "10.213.0.0/16"]),
]

HELD = """
[ "$MADE_UP" = "a b" ] || exit 3
touch "$FORGE_OUT_DIR/waiting"
until [ -e "$FORGE_OUT_DIR/release" ]; do sleep 0.1; done
"""


def test_it_starts_serves_comes_back_after_a_kill_and_stops_while_a_job_goes_on(
    deployed: DeployedConsole, wheels: Path, tmp_path: Path
) -> None:
    deployed.add_wheels(wheels, "new")
    deployed.put_settings()
    for step in load_steps("install.md", "systemd"):
        deployed.shell(step)
    deployed.wait_until_up()
    assert (deployed.show("ActiveState"), deployed.show("UnitFileState")) == ("active", "enabled")

    console = deployed.client(tmp_path / "client")
    experiment = make_experiment(console, HOST_IMAGE, HELD)
    console.sf("secret", "set", "MADE_UP", typed="a b")
    job = experiment.submit("--secret", "MADE_UP")
    out = deployed.storage / "runs" / job / "out"
    experiment.wait_state(job, "RUNNING")
    wait_for((out / "waiting").exists, "the job's script to wait")
    (container,) = deployed.machine.engine.engine.list_containers("forge.attempt")

    first = deployed.show("MainPID")
    deployed.shell(f"kill -9 {first}")
    wait_for(lambda: deployed.show("MainPID") not in {first, "0"}, "systemd to start it again")
    deployed.wait_until_up()
    assert deployed.show("NRestarts") == "1"
    assert experiment.state(job) == "RUNNING"

    deployed.shell("systemctl stop starforge-console")
    assert (deployed.show("ActiveState"), deployed.show("Result")) == ("inactive", "success")
    assert deployed.machine.engine.engine.inspect(container["Id"])["State"]["Running"]

    deployed.shell("systemctl start starforge-console")
    deployed.wait_until_up()
    (out / "release").touch()
    ended = experiment.wait_end(job)
    assert ended["job"]["state"] == "SUCCEEDED"
    assert len(ended["attempts"]) == 1


@pytest.mark.parametrize(("runtime", "page_says"), [("none", 0), ("nvidia", 1)])
def test_the_pages_say_what_systemd_thinks_of_the_unit(
    deployed: DeployedConsole, wheels: Path, runtime: str, page_says: int
) -> None:
    deployed.add_wheels(wheels, "new")
    deployed.settings["FORGE_GPU_RUNTIME"] = runtime
    deployed.put_settings()
    deployed.shell(load_steps("install.md", "systemd")[0])
    deployed.put("/etc/systemd/system/starforge-console.service", deployed.admin("unit"))
    judged = deployed.shell("systemd-analyze security --offline=true /etc/systemd/system/starforge-console.service")
    (figure,) = re.findall(r"Overall exposure level for \S+: (\d+\.\d)", judged)
    for language in ("en", "zh-Hans"):
        page = (REPOSITORY / "docs" / language / "ops/install.md").read_text(encoding="utf-8")
        (line,) = [line for line in page.splitlines() if "systemd-analyze security" in line]
        assert re.findall(r"\b\d\.\d\b", line)[page_says] == figure
