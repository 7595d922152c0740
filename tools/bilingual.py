"""English and Chinese say the same: both READMEs have the same headings, both documentation trees the same pages."""

import re
import sys
from pathlib import Path
from typing import Final

from tools.tree import load_files

ENGLISH: Final = Path("docs/en")
CHINESE: Final = Path("docs/zh-Hans")


def find_violations(root: Path) -> list[str]:
    """One sentence for each page without its counterpart and each pair of pages with other headings."""
    english = {path.relative_to(ENGLISH) for path in load_files(root, f"{ENGLISH}/*.md")}
    chinese = {path.relative_to(CHINESE) for path in load_files(root, f"{CHINESE}/*.md")}
    violations = [f"{ENGLISH / page}: has no counterpart {CHINESE / page}" for page in sorted(english - chinese)]
    violations += [f"{CHINESE / page}: has no counterpart {ENGLISH / page}" for page in sorted(chinese - english)]
    pairs = [(Path("README.md"), Path("README.zh-Hans.md"))]
    pairs += [(ENGLISH / page, CHINESE / page) for page in sorted(english & chinese)]
    for one, other in pairs:
        violations += _compare(root, one, other)
    return violations


def _compare(root: Path, one: Path, other: Path) -> list[str]:
    absent = [str(path) for path in (one, other) if not (root / path).is_file()]
    if absent:
        return [f"{path}: is missing" for path in absent]
    levels = [_heading_levels((root / path).read_text(encoding="utf-8")) for path in (one, other)]
    if levels[0] == levels[1]:
        return []
    return [f"{one} and {other}: the headings differ: levels {levels[0]} against {levels[1]}"]


def _heading_levels(text: str) -> list[int]:
    """The level of each Markdown heading in order; lines inside code fences are no headings."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#{1,6}) ", without_code, flags=re.MULTILINE)]


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)
