"""Chinese texts keep to the glossary: what its column *never* holds is refused in the catalog, README and guides.

A word that another row has for its own thing is refused only where the English beside it speaks of the one and not of
the other. Programs, names in backticks and targets of links are no words.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from babel.messages.pofile import read_po

from starforge.said.catalog import LISTS, MESSAGES
from tools.tree import load_files

GLOSSARY: Final = Path("docs/dev/glossary.md")
CATALOGS: Final = Path("server/starforge_console/web/i18n/locale")
CATALOG: Final = CATALOGS / "zh_Hans"
ENGLISH_CATALOG: Final = CATALOGS / "en"
GUIDES: Final = "docs/zh-Hans"
ENGLISH_GUIDES: Final = "docs/en"
README: Final = Path("README.zh-Hans.md")

_COLUMNS: Final = 4
_HEADING: Final = re.compile(r"^#{1,6} ")
_NO_WORDS: Final = re.compile(r"`[^`]*`|\]\([^)]*\)|\{\w*\}|<[^>]*>")


@dataclass(frozen=True, slots=True)
class Term:
    """A row of the glossary: the English word, the Chinese one, and what must not stand in its place."""

    word: str
    chinese: str
    never: tuple[str, ...]

    def is_named_in(self, english: str) -> bool:
        """Whether an English text speaks of this term, in one number or the other."""
        return re.search(rf"\b{re.escape(self.word)}(?:s|es|d|ing)?\b", english, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of Chinese where it stands, and the English that says the same."""

    place: str
    chinese: str
    english: str


def find_violations(root: Path) -> list[str]:
    """`path:line: sentence` for each word that the glossary refuses."""
    terms = load_terms(root)
    texts = [*_load_messages(root), *_load_pages(root)]
    return [violation for text in texts for violation in _judge(text, terms)]


def load_terms(root: Path) -> list[Term]:
    """The rows of the glossary. Raises ValueError for a row without its four columns, a word or its Chinese."""
    terms = []
    for number, line in enumerate((root / GLOSSARY).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.startswith("| ") or line.startswith("| word |"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != _COLUMNS or not cells[0] or not cells[1]:
            raise ValueError(f"{GLOSSARY}:{number}: a row is word, Chinese, never (or nothing) and meaning: {line!r}")
        terms.append(Term(cells[0], cells[1], tuple(filter(None, cells[2].split("、")))))
    return terms


def _load_messages(root: Path) -> Iterator[Text]:
    for catalog in load_files(root, f"{CATALOG}/*.po"):
        english = _load_english(root / ENGLISH_CATALOG / catalog.name)
        with (root / catalog).open("rb") as ours:
            for message in read_po(ours):
                if message.id:
                    place = f"{catalog}:{message.lineno}: {message.id}"
                    yield Text(place, str(message.string), english.get(str(message.id), ""))


def _load_english(path: Path) -> dict[str, str]:
    """The English of a catalog by its codes; what is decided outside the pages has its English in `starforge.said`."""
    if not path.is_file():
        return {**MESSAGES, **LISTS}
    with path.open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file)}


def _load_pages(root: Path) -> Iterator[Text]:
    """Every line of the pages; the English of a line is the whole section that it stands in."""
    for path in load_files(root, str(README), f"{GUIDES}/*.md"):
        twin = Path("README.md") if path == README else ENGLISH_GUIDES / path.relative_to(GUIDES)
        beside = _read_sections(root / twin) if (root / twin).is_file() else []
        for index, section in enumerate(_read_sections(root / path)):
            english = " ".join(line for _, line in beside[index]) if index < len(beside) else ""
            for number, line in section:
                yield Text(f"{path}:{number}", line, english)


def _read_sections(path: Path) -> list[list[tuple[int, str]]]:
    """Lines with their numbers from heading to heading, without programs."""
    sections: list[list[tuple[int, str]]] = [[]]
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            if _HEADING.match(line):
                sections.append([])
            sections[-1].append((number, _NO_WORDS.sub(" ", line)))
    return sections


def _judge(text: Text, terms: Sequence[Term]) -> Iterator[str]:
    chinese, english = (_NO_WORDS.sub(" ", said) for said in (text.chinese, text.english))
    owners = {term.chinese: term for term in terms}
    for term in terms:
        rest = chinese.replace(term.chinese, " ")
        for wrong in term.never:
            if not _stands_in(wrong, rest):
                continue
            owner = owners.get(wrong)
            if owner and (owner.is_named_in(english) or not term.is_named_in(english)):
                continue
            yield f"{text.place}: says {wrong} for {term.word}, which is {term.chinese} in {GLOSSARY}"


def _stands_in(wrong: str, chinese: str) -> bool:
    """Latin words are compared as whole words in either case; Chinese has no gaps between words."""
    if wrong.isascii():
        return re.search(rf"(?<![A-Za-z_]){re.escape(wrong)}s?(?![A-Za-z_])", chinese, re.IGNORECASE) is not None
    return wrong in chinese


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)
