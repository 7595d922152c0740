import pytest

from core.tests.workspace.trees import git, write_tree
from starforge.workspace.ignore import parse_rules

PATTERNS = [
    "*.log",
    "!keep.log",
    "/build",
    "data/",
    "!data/keep.json",
    "docs/*.txt",
    "**/cache",
    "a/**/z",
    "logs/**",
    "odd[0-9].py",
    "not[!a]x",
    "sp ace",
    "trail   ",
    "\\#literal",
    "\\!bang",
    "# a comment",
    "q?.md",
    "star*fish",
    "nested/only/",
]
PATHS = [
    "x.log", "keep.log", "sub/y.log", "sub/keep.log", "build/out.py", "sub/build/out.py", "data/x.csv",
    "data/keep.json",    "docs/a.txt", "docs/sub/b.txt", "cache/c",
    "deep/er/cache/d", "a/z", "a/b/z", "a/b/c/z", "z",
    "logs/1", "logs/2/3", "odd1.py", "oddx.py", "notbx", "notax", "sp ace", "trail", "#literal", "!bang", "# a comment",
    "q1.md", "q12.md", "starryfish", "star/fish", "nested/only/x", "nested/onlyx", "plain.py", "sub/data/x",
]  # fmt: skip


@pytest.fixture(scope="module")
def ignored_by_git(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    root = tmp_path_factory.mktemp("ignore")
    git(root, "init", "-q")
    write_tree(root, dict.fromkeys(PATHS, "x"))
    (root / ".git/info/exclude").write_text("\n".join(PATTERNS) + "\n")
    listed = git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return set(PATHS) - set(listed)


@pytest.mark.parametrize("path", PATHS)
def test_the_rules_mean_what_they_mean_to_git(path: str, ignored_by_git: set[str]) -> None:
    assert bool(parse_rules(PATTERNS).find_file_answer(path)) == (path in ignored_by_git)


def test_git_itself_was_asked(ignored_by_git: set[str]) -> None:
    assert {"x.log", "data/keep.json", "a/b/z"} < ignored_by_git
    assert "keep.log" not in ignored_by_git


def test_rules_of_a_folder_speak_of_what_is_below_it_alone() -> None:
    rules = parse_rules(["*.txt", "/top"], base="sub/")
    assert rules.find_file_answer("sub/a.txt")
    assert rules.find_file_answer("sub/top")
    assert rules.find_file_answer("a.txt") is None
    assert rules.find_file_answer("sub/deep/top") is None


def test_the_later_rule_wins() -> None:
    assert parse_rules(["*.py", "!a.py"]).find_file_answer("a.py") is False
    assert parse_rules(["!a.py", "*.py"]).find_file_answer("a.py") is True


def test_a_pattern_with_an_open_bracket_is_taken_as_it_stands() -> None:
    assert parse_rules(["a[b"]).find_file_answer("a[b") is True
