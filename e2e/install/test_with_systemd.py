"""A machine under a real systemd: the service, upgrades, a version that nobody hears, and the end."""

import pytest

from e2e.support.clean_machine import PREFIX, CleanMachine
from e2e.support.console import wait_for
from e2e.support.held_job import HeldJob
from e2e.support.images import HOST_IMAGE
from e2e.support.installing import Site

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

SERVICE = "starforge-forgelet"


def show(machine: CleanMachine, field: str) -> str:
    return machine.run("systemctl", "show", "-P", field, SERVICE).stdout.strip()


def test_the_service_is_heard_upgraded_and_put_back_and_a_job_never_notices(
    systemd_machine: CleanMachine, site: Site
) -> None:
    machine = systemd_machine
    done = machine.install(site.console, **site.joining())
    assert done.returncode == 0, done.stderr
    assert "the console hears it" in done.stderr
    assert (show(machine, "ActiveState"), show(machine, "UnitFileState")) == ("active", "enabled")
    first = machine.current()
    name = machine.find_node()
    wait_for(lambda: site.status(name) == "ready", "the node to take jobs")
    held = HeldJob(site, HOST_IMAGE)
    (container,) = machine.engine.engine.list_containers("forge.attempt")

    site.change_forgelet("unit.py", after='\nSECOND = "version"\n')
    assert machine.install(site.console).returncode == 0
    second = machine.current()
    assert second != first

    site.change_forgelet("serving.py", before='"""Broken."""\nraise SystemExit("this version cannot serve")\n')
    broken = machine.install(site.console, FORGE_WAIT_S="5")
    assert broken.returncode == 1
    assert f"back on {second}" in broken.stderr
    assert machine.current() == second
    assert machine.run("forgelet", "doctor", "--wait-heartbeat", "20").returncode == 0
    assert f"{PREFIX}/{second}/bin/python" in machine.run("cat", f"/proc/{show(machine, 'MainPID')}/cmdline").stdout

    site.fill()
    site.change_forgelet("unit.py", after='\nTHIRD = "version"\n')
    assert machine.install(site.console).returncode == 0
    assert machine.list_versions() == sorted([second, machine.current()])

    assert [one["Id"] for one in machine.engine.engine.list_containers("forge.attempt")] == [container["Id"]]
    refused = machine.install(site.console, "--uninstall")
    assert (refused.returncode, show(machine, "ActiveState")) == (1, "active")
    assert machine.install(site.console, "--uninstall", "--force").returncode == 0
    assert show(machine, "ActiveState") == "inactive"
    assert machine.run("ls", f"/etc/systemd/system/{SERVICE}.service", PREFIX).returncode != 0
    assert machine.engine.engine.inspect(container["Id"])["State"]["Running"]

    back = machine.install(site.console)
    assert back.returncode == 0, back.stderr
    assert machine.find_node() == name
    assert held.finish() == "SUCCEEDED"


def test_secrets_of_jobs_stay_when_the_service_stops(systemd_machine: CleanMachine, site: Site) -> None:
    machine = systemd_machine
    assert machine.install(site.console, **site.joining()).returncode == 0
    machine.run("sh", "-c", "mkdir /run/starforge/held; echo kept >/run/starforge/held/file")
    assert machine.run("systemctl", "stop", SERVICE).returncode == 0
    assert machine.read("/run/starforge/held/file") == "kept\n"
    machine.run("rm", "-r", "/run/starforge/held")


def test_a_console_that_is_away_leaves_the_first_version_trying(systemd_machine: CleanMachine, site: Site) -> None:
    machine = systemd_machine
    assert machine.install(site.console, **site.joining()).returncode == 0
    version = machine.current()
    site.console.stop()
    try:
        heard = machine.run("forgelet", "doctor", "--wait-heartbeat", "3")
        assert heard.returncode == 1
        assert "was not reached" in heard.stdout
        assert show(machine, "ActiveState") == "active"
    finally:
        site.console.start()
    assert machine.run("forgelet", "doctor", "--wait-heartbeat", "60").returncode == 0
    assert machine.current() == version
