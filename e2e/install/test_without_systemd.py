"""A machine without systemd, from the pasted line to its end, with a job that runs all the while."""

import pytest

from e2e.support.clean_machine import PREFIX, STATE, CleanMachine
from e2e.support.console import wait_for
from e2e.support.held_job import HeldJob
from e2e.support.images import HOST_IMAGE
from e2e.support.installing import Site

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def test_running_it_again_is_the_upgrade_and_a_running_job_stays_as_it_is(machine: CleanMachine, site: Site) -> None:
    done = machine.install(site.console, **site.joining())
    assert done.returncode == 0, done.stderr
    daemon = machine.spawn(done.stdout.splitlines()[-1])
    first = machine.current()
    name = machine.find_node()
    wait_for(lambda: site.status(name) == "ready", "the node to take jobs")

    held = HeldJob(site, HOST_IMAGE)
    (container,) = machine.engine.engine.list_containers("forge.attempt")

    site.change_forgelet("unit.py", after='\nNEWER = "newer"\n')
    again = machine.install(site.console)
    assert again.returncode == 0, again.stderr
    assert machine.current() != first
    assert machine.list_versions() == sorted([first, machine.current()])
    machine.end(daemon)
    daemon = machine.spawn(again.stdout.splitlines()[-1])
    wait_for(lambda: machine.run("forgelet", "doctor", "--wait-heartbeat", "20").returncode == 0, "a heartbeat")
    assert machine.find_node() == name

    refused = machine.install(site.console, "--uninstall")
    assert (refused.returncode, "nothing was removed" in refused.stderr) == (1, True)
    assert machine.current() != ""

    assert [one["Id"] for one in machine.engine.engine.list_containers("forge.attempt")] == [container["Id"]]
    assert held.finish() == "SUCCEEDED"
    machine.end(daemon)
    wait_for(lambda: machine.run("forgelet", "require", "--idle").returncode == 0, "no job of ours to run here")
    gone = machine.install(site.console, "--uninstall")
    assert gone.returncode == 0, gone.stderr
    assert machine.run("ls", PREFIX).returncode != 0
    assert machine.run("ls", f"{STATE}/identity.json").returncode == 0
    assert machine.install(site.console, "--uninstall", "--purge").returncode == 0
    assert machine.run("ls", STATE).returncode != 0
