"""What pages put into the file of settings means the same to a shell, to systemd and to Docker."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BEHIND_A_VALUE = re.compile(r"^FORGE_\w+=.*[ \t]#.*$", re.MULTILINE)


@pytest.mark.parametrize("page", sorted(PAGES.rglob("*.md")), ids=lambda page: str(page.relative_to(PAGES)))
def test_a_comment_has_a_line_of_its_own(page: Path) -> None:
    """To systemd and to Docker what stands behind a value belongs to it."""
    fences = _FENCE.findall(page.read_text(encoding="utf-8"))
    assert [line for fence in fences for line in _BEHIND_A_VALUE.findall(fence)] == []
