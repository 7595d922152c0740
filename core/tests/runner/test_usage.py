"""How busy the container is: what can be read becomes curves, what cannot is absent and never 0."""

import json
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, until
from starforge.contract import capsule as contract
from starforge.runner.memory import find_cpu_s
from starforge.runner.spool import Spool
from starforge.runner.steps import Steps
from starforge.runner.usage import Counters, Sampler, build_values, find_disk, find_traffic

_TRAFFIC = """Inter-|   Receive                  |  Transmit
 face |bytes    packets errs drop|bytes    packets errs drop
    lo:  999999 1 0 0 0 0 0 0 999999 1 0 0 0 0 0 0
  eth0: 1000 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0
  ib0:50 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
"""


def test_traffic_is_that_of_all_interfaces_but_the_loopback(tmp_path: Path) -> None:
    (tmp_path / "dev").write_text(_TRAFFIC)
    assert find_traffic(str(tmp_path / "dev")) == (1050, 207)


@pytest.mark.parametrize("content", ["", "lo: " + "1 " * 16, "eth0: 1 2", "eth0: " + "x " * 16, "\xff"])
def test_traffic_that_cannot_be_told_is_absent(tmp_path: Path, content: str) -> None:
    (tmp_path / "dev").write_text(content, "utf-8")
    assert find_traffic(str(tmp_path / "dev")) is None
    assert find_traffic(str(tmp_path / "none")) is None


def test_a_rate_takes_two_looks_and_a_counter_that_began_anew_takes_two_more(tmp_path: Path) -> None:
    device = tmp_path / "dev"
    device.write_text(_TRAFFIC)
    counters = Counters(str(device))
    assert "network_sent_bytes_per_s" not in counters.find_rates()
    assert counters.find_rates()["network_sent_bytes_per_s"] == 0
    device.write_text(_TRAFFIC.replace("200", "100"))
    assert "network_sent_bytes_per_s" not in counters.find_rates()
    device.write_text(_TRAFFIC.replace("200", "5000"))
    assert counters.find_rates()["network_sent_bytes_per_s"] > 0


def test_processor_time_is_read_from_either_version_of_the_cgroup(tmp_path: Path) -> None:
    v2, v1 = tmp_path / "v2", tmp_path / "v1"
    v2.mkdir()
    v1.mkdir()
    assert find_cpu_s(str(v2), str(v1)) is None
    (v1 / "cpuacct.usage").write_text("1500000000\n")
    assert find_cpu_s(str(v2), str(v1)) == 1.5
    (v2 / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert find_cpu_s(str(v2), str(v1)) == 2.5


def test_what_is_not_known_has_no_value() -> None:
    gpus: list[dict[str, float | None]] = [{"utilization_percent": 5.0, "power_w": None}, {"power_w": None}]
    assert build_values({"current_bytes": None}, gpus, {}) == {"system/gpu0/utilization_percent": 5.0}
    assert build_values({"current_bytes": 7}, [], {"disk_free_bytes": 1.0}) == {
        "system/disk_free_bytes": 1.0,
        "system/memory_used_bytes": 7.0,
    }


def test_the_disk_is_that_of_the_folder_of_outputs(tmp_path: Path) -> None:
    assert find_disk(str(tmp_path))["disk_free_bytes"] > 0
    assert find_disk(str(tmp_path / "none")) == {}


@pytest.mark.parametrize("is_leader", [True, False])
def test_only_the_leader_draws_curves_and_every_node_tells_its_events(tmp_path: Path, *, is_leader: bool) -> None:
    spool = Spool(str(tmp_path / "spool"), [])
    sampler = Sampler(spool, str(tmp_path), 1.0, is_leader=is_leader)
    sampler.start(Steps(spool))
    events, metrics = (tmp_path / "spool" / contract.SPOOL_FILES[name] for name in ("events", "metrics"))
    until(lambda: events.read_text().count("usage") >= 1, "a sample")
    sampler.end()
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    if not is_leader:
        assert lines == []
        return
    until(lambda: metrics.read_text().count("\n") >= 1, "its point")
    line = json.loads(metrics.read_text().splitlines()[0])
    assert line["values"]["system/disk_free_bytes"] > 0
    assert line["step"] == int(line["time"])


def test_a_job_has_curves_of_the_machine_unless_they_are_turned_off(attempt: Attempt) -> None:
    process = attempt.prepare("sleep", "30").start()
    until(attempt.samples_of_machine, "a sample")
    assert attempt.samples_of_machine()[0]["values"]["system/disk_free_bytes"] > 0
    process.terminate()
    process.communicate(timeout=20)


def test_a_job_whose_console_wants_none_is_not_sampled(attempt: Attempt) -> None:
    assert attempt.prepare("sleep", "2", usage_period_s=None).run() == 0
    assert (attempt.samples_of_machine(), attempt.events("usage")) == ([], [])
