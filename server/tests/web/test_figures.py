"""What `/metrics` shows: every figure that is declared and no other, each counted once."""

import re

from prometheus_client.parser import text_string_to_metric_families

from server.tests.web.lives import begin, go
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.states import Reason
from starforge_console.telemetry.metrics import FIGURES, IngestCounters, LoopFigures


def scrape(console: ConsoleUnderTest) -> dict[str, float]:
    text = console.local_client().get("/metrics").text
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_every_declared_figure_is_shown_with_its_labels_and_no_other(console: ConsoleUnderTest) -> None:
    loops = LoopFigures(console.services.metrics)
    loops.note("dequeue", 0.0, failed=False)
    counters = IngestCounters(console.services.metrics)
    counters.received_bytes.labels("log").inc()
    counters.dropped_lines.labels("log").inc()
    counters.refused.labels("busy").inc()
    gpu = GpuView(uuid="u", index=0, name="H200", series="h200", memory_bytes=None, state=GpuState.HELD)
    console.fleets.views["local"] = FleetView(
        fleet="local", nodes=(NodeView(name="here", gpus=(gpu,), cpus=8, memory_bytes=1 << 30),)
    )
    client = console.local_client()
    client.get("/api/v1/meta")
    job = submit(console, console.add_user("ann"))
    go(console, begin(console, job), Reason.EXITED_ZERO)
    families = {one.name: one for one in text_string_to_metric_families(client.get("/metrics").text)}
    kept = {name: one for name, one in families.items() if not name.endswith("_created")}
    assert {(name, one.type) for name, one in kept.items()} == {(one.name, one.kind) for one in FIGURES}
    for figure in FIGURES:
        labels = {label for sample in kept[figure.name].samples for label in sample.labels} - {"le"}
        assert labels == set(figure.labels), figure.name
    assert 'starforge_gpus{series="h200",use="held"} 1.0' in client.get("/metrics").text


def test_an_attempt_is_counted_once_however_often_somebody_looks(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    console.clock.ahead_s += 20
    running = begin(console, job)
    assert scrape(console)["starforge_queue_wait_seconds_count"] == 1.0
    go(console, running, Reason.EXITED_NONZERO)
    seen = scrape(console)
    again = scrape(console)
    assert seen['starforge_attempts_ended_total{reason="exited_nonzero"}'] == 1.0
    assert again['starforge_attempts_ended_total{reason="exited_nonzero"}'] == 1.0
    assert again["starforge_queue_wait_seconds_count"] == 1.0
    assert 20 <= again["starforge_queue_wait_seconds_sum"] < 60


def test_no_label_holds_an_id_or_a_name(console: ConsoleUnderTest) -> None:
    job = submit(console, console.add_user("ann-of-the-lab"))
    go(console, begin(console, job), Reason.EXITED_ZERO)
    console.local_client().get(f"/api/v1/jobs/{job}")
    text = console.local_client().get("/metrics").text
    assert job not in text
    assert "ann-of-the-lab" not in text


def test_names_follow_the_conventions() -> None:
    for figure in FIGURES:
        assert re.fullmatch(r"starforge_[a-z_]+", figure.name), figure.name
        assert not figure.name.endswith("_total"), "the client adds it"
        assert figure.about.endswith("."), figure.name
