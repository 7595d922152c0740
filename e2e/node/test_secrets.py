"""Secrets of a job on a machine of a fleet: over the daemon's wire into memory, and nowhere else."""

import pytest

from e2e.support.farm import FLEET
from e2e.support.secret_job import begin_secret_job, find_values, find_values_inside
from e2e.support.work import Work

pytestmark = pytest.mark.engine

PLACES = ("/run/starforge", "/var/lib/starforge")


def test_a_job_on_a_machine_is_given_its_owners_secrets_and_nothing_keeps_them(work: Work) -> None:
    machine = work.fleet.machines[0]
    with work.only(machine):
        job = begin_secret_job(work.probe, machine.engine, "--fleet", FLEET)
    work.jobs.append(job.id)
    assert job.list_faults() == []
    assert find_values(work.console) == []
    inside = find_values_inside(machine.engine, PLACES)
    assert len(inside) == 2, inside
    assert all(file.startswith("/run/starforge/") for file in inside)
    job.end(work.out(job.id))
    assert find_values_inside(machine.engine, PLACES) == []
    assert find_values(work.console) == []
