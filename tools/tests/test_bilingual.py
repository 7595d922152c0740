"""English and Chinese pages have the same structure."""

from pathlib import Path

from tools.bilingual import find_violations
from tools.tests.support.trees import build_tree

READMES = {"README.md": "# A\n## B\n", "README.zh-Hans.md": "# 甲\n## 乙\n"}


def test_the_same_headings_and_the_same_trees_are_fine(tmp_path: Path) -> None:
    build_tree(tmp_path, {**READMES, "docs/en/a.md": "# A\n", "docs/zh-Hans/a.md": "# 甲\n"})
    assert find_violations(tmp_path) == []


def test_a_heading_that_one_readme_lacks_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {**READMES, "README.zh-Hans.md": "# 甲\n"})
    (violation,) = find_violations(tmp_path)
    assert "levels [1, 2] against [1]" in violation


def test_a_comment_in_a_code_block_is_no_heading(tmp_path: Path) -> None:
    build_tree(tmp_path, {**READMES, "README.md": "# A\n```sh\n# a comment\n```\n## B\n"})
    assert find_violations(tmp_path) == []


def test_a_page_in_one_language_alone_is_refused_in_both_directions(tmp_path: Path) -> None:
    build_tree(tmp_path, {**READMES, "docs/en/a.md": "# A\n", "docs/zh-Hans/b.md": "# 乙\n"})
    assert [line.split(":")[0] for line in find_violations(tmp_path)] == ["docs/en/a.md", "docs/zh-Hans/b.md"]


def test_a_missing_readme_is_refused(tmp_path: Path) -> None:
    build_tree(tmp_path, {"README.md": "# A\n"})
    assert find_violations(tmp_path) == ["README.zh-Hans.md: is missing"]
