"""The console's own figures in Prometheus form, on a registry that is passed in, never the global one.

Each is declared once, in FIGURES, which the reference page and the console itself are built from. No label holds an id,
a name of a user or anything else that grows with what people do.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as it is declared. A counter's name is shown with `_total`."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name by which Prometheus knows it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


_WAITS_S: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
_ANSWERS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

FIGURES: Final[Sequence[Figure]] = (
    Figure("starforge_jobs", "gauge", "Jobs by state.", ("state",)),
    Figure("starforge_gpus", "gauge", "GPUs of all fleets by series and use, as last heard.", ("series", "use")),
    Figure(
        "starforge_queue_wait_seconds",
        "histogram",
        "How long jobs waited in the queue before an attempt began, since this process started.",
        buckets=_WAITS_S,
    ),
    Figure("starforge_attempts_ended", "counter", "Attempts that ended, by reason.", ("reason",)),
    Figure("starforge_loop_passes", "counter", "Passes of each loop, by outcome: ok or failed.", ("loop", "outcome")),
    Figure("starforge_loop_pass_seconds", "counter", "Time spent in passes of each loop.", ("loop",)),
    Figure(
        "starforge_loop_last_pass_timestamp_seconds",
        "gauge",
        "When each loop last ended a pass without an error.",
        ("loop",),
    ),
    Figure(
        "starforge_http_request_seconds",
        "histogram",
        "Time until the head of an answer, by surface (api, page, wait: what waits for news) and class of status.",
        ("surface", "status"),
        _ANSWERS_S,
    ),
    Figure("starforge_ingest_received_bytes", "counter", "Bytes of streams made durable.", ("stream",)),
    Figure("starforge_ingest_points", "counter", "Points of curves kept."),
    Figure("starforge_ingest_dropped_lines", "counter", "Lines that could not be read.", ("stream",)),
    Figure("starforge_ingest_refused", "counter", "Requests to ingest that were refused, by code.", ("code",)),
)
_BY_NAME: Final[Mapping[str, Figure]] = MappingProxyType({one.name: one for one in FIGURES})


def build_counter(name: str, registry: CollectorRegistry) -> Counter:
    """The counter that is declared under `name`."""
    figure = _BY_NAME[name]
    return Counter(figure.name, figure.about, figure.labels, registry=registry)


def build_gauge(name: str, registry: CollectorRegistry) -> Gauge:
    """The gauge that is declared under `name`."""
    figure = _BY_NAME[name]
    return Gauge(figure.name, figure.about, figure.labels, registry=registry)


def build_histogram(name: str, registry: CollectorRegistry) -> Histogram:
    """The histogram that is declared under `name`."""
    figure = _BY_NAME[name]
    return Histogram(figure.name, figure.about, figure.labels, buckets=figure.buckets, registry=registry)


class IngestCounters:
    """What ingest has taken since this process started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received_bytes = build_counter("starforge_ingest_received_bytes", registry)
        self.points = build_counter("starforge_ingest_points", registry)
        self.dropped_lines = build_counter("starforge_ingest_dropped_lines", registry)
        self.refused = build_counter("starforge_ingest_refused", registry)


class LoopFigures:
    """How the loops of this process fare."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._passes = build_counter("starforge_loop_passes", registry)
        self._seconds = build_counter("starforge_loop_pass_seconds", registry)
        self._last = build_gauge("starforge_loop_last_pass_timestamp_seconds", registry)

    def note(self, loop: str, began: float, *, failed: bool) -> None:
        """A pass that began at `began`, of `time.monotonic()`, has ended now."""
        self._passes.labels(loop, "failed" if failed else "ok").inc()
        self._seconds.labels(loop).inc(time.monotonic() - began)
        if not failed:
            self._last.labels(loop).set_to_current_time()


class JobFigures:
    """What became of jobs since this process started, as the ledger's events tell it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waits = build_histogram("starforge_queue_wait_seconds", registry)
        self.ended = build_counter("starforge_attempts_ended", registry)


class HttpFigures:
    """How long answers of pages and API took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = build_histogram("starforge_http_request_seconds", registry)

    def note(self, surface: str, status: int, seconds: float) -> None:
        """The head of an answer was sent."""
        self._seconds.labels(surface, f"{status // 100}xx").observe(seconds)
