"""The steps that tests follow are the same in both languages, but for what explains them."""

import re
from pathlib import Path

import pytest

from e2e.support.steps import PAGES, list_steps

CHINESE = Path(__file__).parents[2] / "docs" / "zh-Hans" / "ops"
MARKED = sorted(page.name for page in PAGES.glob("*.md") if list_steps(page))


def without_comments(page: Path) -> list[tuple[str, str]]:
    return [(name, re.sub(r" *#.*", "", code)) for name, code in list_steps(page)]


def test_there_are_pages_with_steps() -> None:
    assert {"install.md", "proxy.md", "upgrade.md"} <= set(MARKED)


@pytest.mark.parametrize("page", MARKED)
def test_the_steps_are_the_same_in_both_languages(page: str) -> None:
    assert without_comments(CHINESE / page) == without_comments(PAGES / page)
