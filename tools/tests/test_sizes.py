"""Size limits refuse what is too long and keep no exception that nothing needs."""

from pathlib import Path

from tools.sizes import find_violations
from tools.tests.support.trees import build_tree

LONG_FUNCTION = "def run():\n" + "    pass\n" * 50


def test_a_source_file_of_401_lines_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {"core/a.py": "x = 1\n" * 401, "core/b.py": "x = 1\n" * 400})
    assert [line.split(":")[0] for line in find_violations(tmp_path, {})] == ["core/a.py"]


def test_a_test_file_may_have_600_lines_and_not_601(tmp_path: Path) -> None:
    build_tree(tmp_path, {"core/tests/test_a.py": "x = 1\n" * 600, "e2e/test_b.py": "x = 1\n" * 601})
    assert [line.split(":")[0] for line in find_violations(tmp_path, {})] == ["e2e/test_b.py"]


def test_a_function_of_51_lines_is_refused_by_name(tmp_path: Path) -> None:
    build_tree(tmp_path, {"a.py": LONG_FUNCTION})
    (violation,) = find_violations(tmp_path, {})
    assert violation.startswith("a.py::run: 51 lines, at most 50")


def test_an_exception_raises_one_limit_and_no_further(tmp_path: Path) -> None:
    build_tree(tmp_path, {"a.py": LONG_FUNCTION})
    assert find_violations(tmp_path, {"a.py::run": (51, "a table")}) == []
    assert len(find_violations(tmp_path, {"a.py::run": (50, "a table")})) == 1


def test_an_exception_that_nothing_needs_any_more_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {"a.py": "x = 1\n"})
    (violation,) = find_violations(tmp_path, {"a.py::run": (60, "was long once")})
    assert "no longer needs" in violation
