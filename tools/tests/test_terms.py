"""Chinese texts keep to the words of the glossary."""

from pathlib import Path

import pytest

from tools.terms import CATALOG, ENGLISH_CATALOG, find_violations
from tools.tests.support.trees import build_tree

GLOSSARY = """\
| word | Chinese | never | what it means |
|---|---|---|---|
| checkpoint | 检查点 | checkpoint | a folder |
| hyperparameter | 超参数 | 超参 | a value |
| method | 方法 | | how |
| recipe | 配方 | 方法、食谱 | what |
| you | 你 | 您 | who reads |
"""


def _violations(tmp_path: Path, chinese: str, english: str = "# A\n") -> list[str]:
    pages = {"docs/zh-Hans/a.md": chinese, "docs/en/a.md": english}
    return find_violations(build_tree(tmp_path, {"docs/dev/glossary.md": GLOSSARY, **pages}))


def _catalog(code: str, message: str) -> str:
    return f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{code}"\nmsgstr "{message}"\n'


@pytest.mark.parametrize(
    "chinese",
    [
        "你的检查点和超参数。\n",
        "`checkpoint` 是一个名字。\n",
        "```sh\nls checkpoint  # 您\n```\n",
        "[检查点](checkpoint.md)\n",
    ],
)
def test_the_words_of_the_glossary_and_names_of_programs_are_fine(tmp_path: Path, chinese: str) -> None:
    assert _violations(tmp_path, chinese) == []


@pytest.mark.parametrize(("wrong", "word"), [("您", "you"), ("Checkpoints", "checkpoint"), ("超参", "hyperparameter")])
def test_a_refused_word_is_named_with_its_line(tmp_path: Path, wrong: str, word: str) -> None:
    (violation,) = _violations(tmp_path, f"# 甲\n\n这里有{wrong}。\n")
    assert violation.startswith("docs/zh-Hans/a.md:3: says ")
    assert f"for {word}, which is" in violation


def test_a_word_of_another_row_is_judged_by_the_english_of_its_section(tmp_path: Path) -> None:
    chinese = "# 甲\n\n方法一栏。\n\n## 乙\n\n训练方法。\n"
    (violation,) = _violations(tmp_path, chinese, "# A\n\nThe column recipes.\n\n## B\n\nA recipe is a method.\n")
    assert violation == "docs/zh-Hans/a.md:3: says 方法 for recipe, which is 配方 in docs/dev/glossary.md"


def test_a_message_is_judged_by_the_english_of_its_code(tmp_path: Path) -> None:
    ours, theirs = CATALOG / "messages.po", ENGLISH_CATALOG / "messages.po"
    catalogs = {str(ours): _catalog("jobs.recipe", "方法"), str(theirs): _catalog("jobs.recipe", "Recipe")}
    (violation,) = find_violations(build_tree(tmp_path, {"docs/dev/glossary.md": GLOSSARY, **catalogs}))
    assert violation == f"{ours}:4: jobs.recipe: says 方法 for recipe, which is 配方 in docs/dev/glossary.md"


def test_a_readme_is_read_too(tmp_path: Path) -> None:
    tree = {"docs/dev/glossary.md": GLOSSARY, "README.md": "# A\n", "README.zh-Hans.md": "# 您\n"}
    assert len(find_violations(build_tree(tmp_path, tree))) == 1


def test_a_row_without_chinese_is_refused(tmp_path: Path) -> None:
    tree = {"docs/dev/glossary.md": GLOSSARY + "| wish | | | what is wished |\n"}
    with pytest.raises(ValueError, match=r"glossary.md:8: a row is word, Chinese"):
        find_violations(build_tree(tmp_path, tree))
