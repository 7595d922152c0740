"""Changelog fragments that towncrier would pass over are refused."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.check import BIN
from tools.fragments import find_violations
from tools.tests.support.trees import ROOT, build_tree


@pytest.mark.parametrize("name", ["submit.added.txt", "submit.feature.md", "Submit.added.md", "added.md"])
def test_a_name_that_is_no_fragment_is_refused(tmp_path: Path, name: str) -> None:
    build_tree(tmp_path, {f"changes/{name}": "Jobs can be submitted.\n"})
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (violation,) = find_violations(tmp_path)
    assert violation.startswith(f"changes/{name}: name it")


def test_an_empty_fragment_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {"changes/+submit.added.md": "\n"})
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (violation,) = find_violations(tmp_path)
    assert "is empty" in violation


def test_what_the_check_accepts_stands_in_the_draft(tmp_path: Path) -> None:
    build_tree(tmp_path, {"changes/+submit.added.md": "Jobs can be submitted.\n"})
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert find_violations(tmp_path) == []
    argv = [str(BIN / "towncrier"), "build", "--draft", "--version", "next"]
    draft = subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "Jobs can be submitted." in draft
    assert "Added" in draft
