"""Generated pages are compared with their source."""

from pathlib import Path

from starforge.contract.states import JobState, Reason
from tools.docs_check import apply_pages, find_violations
from tools.references.states import build_page

GENERATED = {"docs/a.md": lambda: "one\ntwo\n"}


def test_a_page_just_written_is_fine(tmp_path: Path) -> None:
    apply_pages(tmp_path, GENERATED)
    assert find_violations(tmp_path, GENERATED) == []


def test_a_page_changed_by_hand_is_refused_with_the_difference(tmp_path: Path) -> None:
    apply_pages(tmp_path, GENERATED)
    (tmp_path / "docs/a.md").write_text("one\nthree\n", encoding="utf-8")
    (violation,) = find_violations(tmp_path, GENERATED)
    assert "-three" in violation
    assert "+two" in violation


def test_a_missing_page_is_refused(tmp_path: Path) -> None:
    (violation,) = find_violations(tmp_path, GENERATED)
    assert violation.startswith("docs/a.md: is not what its source says")


def test_the_state_page_draws_an_edge_for_each_pair_and_names_all_its_reasons() -> None:
    table: dict[tuple[JobState | None, Reason], JobState] = {
        (None, Reason.ADMITTED): JobState.QUEUED,
        (JobState.RUNNING, Reason.EXITED_NONZERO): JobState.FAILED,
        (JobState.RUNNING, Reason.VANISHED): JobState.FAILED,
    }
    page = build_page(table)
    assert "  [*] --> QUEUED: admitted\n" in page
    assert "  RUNNING --> FAILED: exited_nonzero, vanished\n" in page
    assert "| (new) | admitted | QUEUED |" in page


def test_the_state_page_ends_at_states_that_nothing_leaves() -> None:
    table: dict[tuple[JobState | None, Reason], JobState] = {
        (JobState.RUNNING, Reason.EXITED_ZERO): JobState.SUCCEEDED,
    }
    assert "  SUCCEEDED --> [*]\n" in build_page(table)
