"""The pages docs/*/diagnosis.md: what is known of failed trainings, kind by kind, in the words of the job's page."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from starforge.diagnosis.answer import Category
from starforge.diagnosis.exits import EXIT_RULES
from starforge.diagnosis.rule import Rule
from starforge.diagnosis.rules.book import RULES
from starforge_console.web.i18n.words import CHINESE, ENGLISH, Words, load_words

_HEADS: Final = Path(__file__).with_name("heads")
_TABLES: Final = {ENGLISH: ("what happened", "what to do"), CHINESE: ("发生了什么", "怎么办")}
_PLACEHOLDER: Final = "…"


def build_pages() -> Mapping[str, Callable[[], str]]:
    """The page of each language by its path."""
    return {f"docs/{language}/diagnosis.md": partial(build_page, language) for language in (ENGLISH, CHINESE)}


def build_page(language: str, rules: Sequence[Rule] = (*RULES, *EXIT_RULES)) -> str:
    """The whole page, the same text for the same rules and words."""
    words = load_words(language)
    head = (_HEADS / f"diagnosis.{language}.md").read_text(encoding="utf-8")
    return head + "".join(_build_section(category, language, words, rules) for category in Category)


def _build_section(category: Category, language: str, words: Words, rules: Sequence[Rule]) -> str:
    title = words.text(f"diagnosis.category.{category}")
    what, do = _TABLES[language]
    rows = "".join(_build_row(rule, words) for rule in rules if rule.category is category)
    return f"\n## {category}\n\n{title}\n\n| {what} | {do} |\n|---|---|\n{rows}"


def _build_row(rule: Rule, words: Words) -> str:
    texts = [words.text(f"diagnosis.{rule.kind}{part}") for part in ("", ".advice")]
    for pattern in rule.patterns[:1]:
        for name in pattern.regex.groupindex:
            texts = [text.replace(f"{{{name}}}", _PLACEHOLDER) for text in texts]
    return f"| {texts[0]} | {texts[1]} |\n".replace("\\", "\\\\")
