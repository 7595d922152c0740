import re
from collections import Counter
from io import BytesIO
from itertools import chain
from string import Formatter
from typing import get_args

import pytest
from babel.messages.pofile import read_po
from markupsafe import Markup

from starforge.contract.states import JobState, Reason
from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.exits import EXIT_RULES
from starforge.diagnosis.rules.book import RULES
from starforge.recipes.model import ParameterType
from starforge.said.catalog import LISTS, MESSAGES
from starforge.wording import TIME_UNITS
from starforge_console.admission.gates import GATES
from starforge_console.domain.opening import KINDS
from starforge_console.domain.progress import Cause
from starforge_console.domain.retention import Kind
from starforge_console.domain.roles import Role, Scope
from starforge_console.ledger.audit import Via
from starforge_console.settings.console import FleetKind
from starforge_console.web.i18n.words import CHINESE, ENGLISH, LOCALES, choose_language, load_words
from starforge_console.web.pages import admin, admin_users, catalog, fleets, jobs, queue
from starforge_console.web.pages.fleet_map import STATES, STATUSES
from starforge_console.web.pages.fleet_nodes import Act
from starforge_console.web.pages.jobs_together import Stays
from starforge_console.web.pages.look import TEMPLATES
from starforge_console.web.pages.visit import THEMES

ASKED = re.compile(r"\bt\(\s*\"([a-zA-Z_.0-9]+)\"\s*[,)]")
COUNTED = re.compile(r"\bt\.count\(\s*\"([a-zA-Z_.]+)\"")
NAMED = re.compile(r"\"((?:done|signin|job|tokens)\.(?!html\")[a-z_]+)\"")
DIAGNOSES = (*RULES, *EXIT_RULES)
ERRORS = (401, 403, 404, 405, 409, 413, 422, 429, 500)


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_signs_that_reorder_or_hide_become_visible_in_a_message(language: str) -> None:
    words = load_words(language)
    key = "loss\u202egnp.exe\u2066\x1b[31m"
    for said in (words("curves.says", key=key, first=key, last=key, step=key), words.count("jobs.changed", 2, x=key)):
        assert not set(said) & set("\u202e\u2066\x1b")
    assert "<b>" in words("curves.says", key=Markup("<b>x</b>"), first="", last="", step="")


def test_no_code_stands_twice_in_a_language() -> None:
    for folder in LOCALES.iterdir():
        found = Counter(
            code
            for path in folder.glob("*.po")
            for code in re.findall('^msgid "(.+)"$', path.read_text(), re.MULTILINE)
        )
        assert [code for code, times in found.items() if times > 1] == []


def built_codes() -> set[str]:
    """Codes that are put together from a value."""
    return {
        *(f"state.{state}" for state in JobState),
        *(f"reason.{reason}" for reason in Reason),
        *(f"tab.{tab or 'ALL'}" for tab in jobs.TABS),
        *(f"theme.{theme}" for theme in THEMES),
        *(f"scope.{scope}" for scope in Scope),
        *(f"unit.{unit}" for unit, _ in TIME_UNITS),
        *(f"gate.{gate.name}" for gate in GATES),
        *(f"outcome.{outcome}" for outcome in ("passed", "warned", "refused")),
        *(f"notice.{state}" for state in (JobState.SUBMITTED, JobState.PENDING)),
        *(f"error.{status}.{part}" for status in ERRORS for part in ("title", "why", "next")),
        *(f"files.kind.{kind}" for kind in ("link", "other")),
        *(f"done.{done}" for done in jobs.DONE_TO_JOBS),
        *(f"error.{sign}" for sign in ("because", "then", "end")),
        *(f"together.{act}" for act in ("pause", "resume")),
        *(f"together.stay.{why}" for why in Stays),
        *(f"fleets.done.{done}" for done in fleets.DONE),
        *(f"kind.{kind}" for kind in FleetKind),
        *(f"network.{network}" for network in fleets.NETWORKS),
        *(f"gpustate.{state}" for state in STATES),
        *(f"status.{status}" for status in STATUSES if status != "ready"),
        *(f"advice.{status}" for status in STATUSES if status != "ready"),
        *(f"act.{act}" for act in Act),
        *(f"ask.{act}.{part}" for act in Act for part in ("title", "what", "do")),
        *(f"curves.axis.{axis}" for axis in ("step", "relative", "wall")),
        *(f"catalog.better.{better}" for better in ("lower", "higher")),
        *(f"catalog.type.{kind}" for kind in get_args(ParameterType)),
        *(f"group.{group}" for group in catalog.GROUPS),
        *(f"join.{form}" for form in ("sudo", "wget", "private_ca")),
        *(f"admin.view.{view}" for view in admin.ADMINISTRATORS),
        *(f"admin.kind.{kind}" for kind in Kind),
        *(f"admin.window_kind.{kind}" for kind in KINDS),
        *(f"priority.{word}" for word in queue.WORDS.values()),
        *(f"queue.move.{move}" for move in ("first", "last")),
        *(f"queue.moved.{move}" for move in ("first", "last")),
        *(f"quota.{kind}" for kind in ("user", "team")),
        *(f"{part}.{role}" for part in ("role", "role.what") for role in Role),
        *(f"via.{via}" for via in Via),
        *(f"device.done.{done}" for done in ("approved", "denied")),
        *(f"admin.done.{done}" for done in (*admin.DONE, *admin_users.DONE)),
        *(f"diagnosis.{rule.kind}{part}" for rule in DIAGNOSES for part in ("", ".advice")),
        *(f"pause.risk.{cause}" for cause in Cause),
        *(f"diagnosis.category.{category}" for category in Category),
        *(f"diagnosis.confidence.{confidence}" for confidence in Confidence),
        *MESSAGES,
        *LISTS,
    }


def asked_codes() -> tuple[set[str], set[str]]:
    """Codes that templates and routes name, and those of them that have a form for each number."""
    templates = [path.read_text(encoding="utf-8") for path in TEMPLATES.rglob("*.html")]
    package = TEMPLATES.parent
    code = [path.read_text(encoding="utf-8") for path in (*package.glob("pages/*.py"), package / "signin.py")]
    plain = set(chain.from_iterable(map(ASKED.findall, templates)))
    named = set(chain.from_iterable(map(NAMED.findall, code)))
    return plain | named | built_codes(), set(chain.from_iterable(map(COUNTED.findall, templates)))


def test_a_diagnosis_is_told_in_english_as_the_rule_tells_it() -> None:
    words = load_words(ENGLISH)
    for rule in DIAGNOSES:
        told = (words.text(f"diagnosis.{rule.kind}"), words.text(f"diagnosis.{rule.kind}.advice"))
        assert told == (rule.summary, rule.advice)


def values_in(message: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(message) if name}


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_no_message_is_missing_and_none_is_left_over(language: str) -> None:
    plain, counted = asked_codes()
    forms = {f"{code}.{form}" for code in counted for form in (("one", "other") if language == ENGLISH else ("other",))}
    wanted, there = plain | forms, load_words(language).codes
    assert wanted ^ there == frozenset()


def test_no_code_of_a_sentence_is_a_pages_own() -> None:
    own = (message.id for path in (LOCALES / ENGLISH).glob("*.po") for message in read_po(BytesIO(path.read_bytes())))
    assert {str(code) for code in own} & {*MESSAGES, *LISTS} == set()


def test_both_languages_leave_room_for_the_same_values() -> None:
    english, chinese = load_words(ENGLISH), load_words(CHINESE)
    for code in english.codes & chinese.codes:
        assert values_in(english.text(code)) == values_in(chinese.text(code)), code


def test_a_value_is_escaped_and_a_message_never_holds_markup() -> None:
    words = load_words(ENGLISH)
    assert words("stop.one", name="<b>&") == "Stop &lt;b&gt;&amp;?"
    assert not [code for code in words.codes if "<" in words.text(code)]


def test_each_number_gets_the_form_that_its_language_has() -> None:
    assert [load_words(ENGLISH).count("stop.ask", n) for n in (1, 2)] == ["Stop 1 job?", "Stop 2 jobs?"]
    assert load_words(CHINESE).count("stop.ask", 1) == "停止 1 个作业？"  # noqa: RUF001 - Chinese


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "de", "en"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"),
        (None, "en-GB,en;q=0.9,zh;q=0.8", "en"),
        (None, "fr, zh;q=0.5, en;q=0.3", "zh-Hans"),
        (None, "zh;q=wrong", "en"),
        ("en", "zh-CN", "en"),
        ("zh-Hans", "en", "zh-Hans"),
        ("tlh", "zh-CN", "zh-Hans"),
    ],
)
def test_the_language_is_the_chosen_one_else_the_browsers(chosen: str | None, accepted: str, language: str) -> None:
    assert choose_language(chosen, accepted) == language
