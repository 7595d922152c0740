import hashlib
import re

import pytest

from core.tests.diagnosis.builders import STEPS, UNKNOWN_ERROR, build_log, load_samples
from starforge.diagnosis.answer import RULES_VERSION, Category, Confidence, KnownExit
from starforge.diagnosis.diagnose import diagnose
from starforge.diagnosis.exits import EXIT_RULES
from starforge.diagnosis.hits import find_hits
from starforge.diagnosis.lines import Line, read_lines
from starforge.diagnosis.rule import Rule
from starforge.diagnosis.rules.book import RULES
from starforge.diagnosis.window import RawLine

SAMPLES = load_samples()
DIGEST = "a5fb02ca5ade6838"
BY_KIND = {rule.kind: rule for rule in RULES}
POSITIVE = [(kind, sample) for kind, (samples, _) in SAMPLES.items() for sample in samples]
NEAR_MISSES = [(kind, near) for kind, (_, misses) in SAMPLES.items() for near in misses]


def test_every_rule_has_a_line_that_it_knows_and_one_that_it_does_not() -> None:
    assert set(SAMPLES) == set(BY_KIND)
    assert all(samples and misses for samples, misses in SAMPLES.values())


def test_there_are_many_kinds_and_each_has_a_name_of_its_own() -> None:
    kinds = [rule.kind for rule in (*RULES, *EXIT_RULES)]
    assert len(kinds) == len(set(kinds))
    assert len(kinds) >= 130
    assert {rule.category for rule in (*RULES, *EXIT_RULES)} == set(Category)


@pytest.mark.parametrize(("kind", "sample"), POSITIVE, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(POSITIVE)])
def test_a_rule_knows_what_frameworks_print(kind: str, sample: str) -> None:
    log, number = build_log(sample, BY_KIND[kind])
    found = diagnose(log, KnownExit(code=1))
    assert (found.kind, found.spot.number if found.spot else None) == (kind, number)
    assert found.category is BY_KIND[kind].category
    assert "{" not in found.summary + found.advice


@pytest.mark.parametrize(
    ("kind", "near"), NEAR_MISSES, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(NEAR_MISSES)]
)
def test_a_line_that_only_looks_alike_is_not_taken_for_the_kind(kind: str, near: str) -> None:
    found = diagnose(f"{STEPS}{near}\n".encode(), KnownExit(code=1))
    assert found.kind != kind


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_every_pattern_of_a_rule_is_needed_by_one_of_its_lines(rule: Rule) -> None:
    """What kills a mutant that drops a pattern: no other pattern of the rule knows all of its lines."""
    samples, _ = SAMPLES[rule.kind]
    known = {
        hit.match.re.pattern for sample in samples for hit in find_hits(_lines(build_log(sample, rule)[0]), [rule])
    }
    assert known == {pattern.regex.pattern for pattern in rule.patterns}


@pytest.mark.parametrize(("kind", "sample"), POSITIVE, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(POSITIVE)])
def test_words_of_a_cause_in_a_training_text_stay_undiagnosed(kind: str, sample: str) -> None:
    log, number = build_log(sample, BY_KIND[kind])
    line = log.decode().split("\n")[number - 1]
    quoted = f"{STEPS}{{'prompt': {line!r}, 'label': 'why?'}}\n# {line.strip()}\n{UNKNOWN_ERROR}"
    assert diagnose(quoted.encode(), KnownExit(code=1)).category is Category.UNKNOWN


@pytest.mark.parametrize(("kind", "sample"), POSITIVE, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(POSITIVE)])
def test_what_was_caught_and_went_on_is_no_diagnosis(kind: str, sample: str) -> None:
    log, _ = build_log(sample, BY_KIND[kind])
    went_on = log + STEPS.encode()
    assert diagnose(went_on + UNKNOWN_ERROR.encode(), KnownExit(code=1)).category is Category.UNKNOWN
    assert diagnose(went_on, KnownExit(code=0)).category is Category.UNKNOWN


def test_texts_are_plain_and_sources_are_addresses() -> None:
    for rule in (*RULES, *EXIT_RULES):
        assert re.fullmatch(r"https://\S+", rule.source), rule.kind
        assert rule.summary.endswith("."), rule.kind
        assert rule.advice.endswith("."), rule.kind
        assert (rule.category is Category.UNKNOWN) == (rule.confidence is Confidence.UNKNOWN)


def test_texts_name_only_what_every_pattern_of_the_rule_tells() -> None:
    for rule in RULES:
        named = set(re.findall(r"\{(\w+)\}", rule.summary + rule.advice))
        for pattern in rule.patterns:
            assert named <= set(pattern.regex.groupindex), (rule.kind, pattern.regex.pattern)


def test_the_version_counts_up_with_every_change_of_a_rule() -> None:
    """Kept diagnoses are made anew by it. After a change: RULES_VERSION + 1, and the digest that this prints."""
    told = [
        (rule.kind, rule.category, rule.weight, rule.confidence, rule.explains, rule.above, rule.summary, rule.advice)
        for rule in (*RULES, *EXIT_RULES)
    ]
    patterns = [(pattern.needle, pattern.regex.pattern) for rule in RULES for pattern in rule.patterns]
    digest = hashlib.sha256(repr((told, patterns)).encode()).hexdigest()[:16]
    assert (RULES_VERSION, digest) == (4, DIGEST)


def _lines(log: bytes) -> list[Line]:
    return list(read_lines(RawLine(at, 0, line) for at, line in enumerate(log.split(b"\n"), start=1)))
