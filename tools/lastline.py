"""A pytest plugin: a run ends with `N passed, N failed, N skipped`, and `--counts FILE` writes the same as JSON.

Errors count as failed. Markers named in the ini option `parts` are counted one by one, so that a leg can tell whether a
required part ran.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

# pytest's outcome -> ours; an expected failure shows no promise kept, so it is no pass.
OUTCOMES: Final = {
    "passed": "passed",
    "failed": "failed",
    "error": "failed",
    "xpassed": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--counts` and the ini option `parts`."""
    parser.addoption("--counts", type=Path, default=None, metavar="FILE", help="write the counts as JSON to FILE")
    parser.addini("parts", "markers whose tests are counted one by one", type="args", default=[])


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Prints the line, in the process that shows the results, and writes the file."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    counts = _empty()
    parts = {name: _empty() for name in config.getini("parts")}
    for category, ours in OUTCOMES.items():
        reports = reporter.stats.get(category, [])
        counts[ours] += len(reports)
        _count_parts(parts, ours, reports)
    if config.getoption("counts"):
        config.getoption("counts").write_text(json.dumps({**counts, "parts": parts}), encoding="utf-8")
    reporter.write_line("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))


def _empty() -> dict[str, int]:
    return {"passed": 0, "failed": 0, "skipped": 0}


def _count_parts(parts: dict[str, dict[str, int]], outcome: str, reports: Iterable[object]) -> None:
    for report in reports:
        for name in parts.keys() & getattr(report, "keywords", {}).keys():
            parts[name][outcome] += 1
