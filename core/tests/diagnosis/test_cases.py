"""The collection of failing logs, where it lies beside the repository."""

import json
from pathlib import Path
from typing import Any

import pytest

from starforge.diagnosis.answer import KnownExit
from starforge.diagnosis.diagnose import diagnose

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"
LISTED = CASES / "cases.jsonl"


def _load() -> list[dict[str, Any]]:
    if not LISTED.is_file():
        return []
    cases = [json.loads(line) for line in LISTED.read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if case["kind"] == "B"]


FOUND = _load()


@pytest.mark.skipif(not FOUND, reason="the collection of failing logs is not there: shared/cases beside the repository")
def test_the_collection_is_read() -> None:
    assert len(FOUND) >= 30


@pytest.mark.parametrize("knows_exit", [True, False])
@pytest.mark.parametrize("case", FOUND, ids=[case["id"] for case in FOUND])
def test_a_collected_log_is_diagnosed_as_expected(case: dict[str, Any], *, knows_exit: bool) -> None:
    wanted = case["expected"]
    known = KnownExit(code=wanted["exit_code"] if knows_exit else None)
    found = diagnose((CASES / case["file"]).read_bytes(), known)
    assert found.category == wanted["category"]
    assert found.spot is not None
    assert found.spot.number == wanted["root_cause_line_no"]
    assert wanted["root_cause_line"] in found.spot.text
    for name in ("confidence", "retryable"):
        assert getattr(found, name) == wanted.get(name, getattr(found, name))
    assert found.rank == wanted.get("suspect_rank", found.rank)
