"""The console's own figures in Prometheus form: counters on a registry that is passed in, never the global one."""

from prometheus_client import CollectorRegistry, Counter


class IngestCounters:
    """What ingest has taken since this process started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received_bytes = Counter(
            "starforge_ingest_received_bytes", "Bytes of streams made durable.", ["stream"], registry=registry
        )
        self.points = Counter("starforge_ingest_points", "Points of curves kept.", registry=registry)
        self.dropped_lines = Counter(
            "starforge_ingest_dropped_lines", "Lines that could not be read.", ["stream"], registry=registry
        )
        self.refused = Counter(
            "starforge_ingest_refused", "Requests that were refused, by code.", ["code"], registry=registry
        )
