"""The page docs/dev/metrics.md: every figure that `/metrics` shows, as it is declared."""

from typing import Final

from starforge_console.telemetry.metrics import FIGURES, Figure

_HEAD: Final = """\
# Metrics

Generated from `starforge_console.telemetry.metrics`; `make fix` writes it anew and `make check` compares.

`GET /metrics` answers in the text format of Prometheus: freely for processes of the console's own machine, otherwise,
and through a proxy, for administrators, with a personal token as bearer. Counters and histograms count from the start
of the process. No label holds an id or a name of a user.

| metric | type | labels | what it is |
|---|---|---|---|
"""


def build_page() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_build_row, FIGURES))


def _build_row(one: Figure) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
    return f"| `{one.shown_name}` | {one.kind} | {labels} | {one.about} |\n"
