import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import starforge
import starforge_console
from server.tests.pages.sentences import find_english
from starforge.said.catalog import LISTS, MESSAGES
from starforge.said.sentence import Said, names_in, say, say_list
from starforge_console.web.i18n.words import CHINESE, ENGLISH, load_words

PACKAGES = [Path(package.__file__).parent for package in (starforge, starforge_console) if package.__file__]
COMMAND = re.compile(
    r"'[^']*'|`[^`]*`|--[a-z-]+(?: HOST:PORT| SECONDS)?|hf://[A-Z/@]+|FORGE_[A-Z_]+"
    r"|(?:lifecycle\.)?max_runtime(?:_s)?"
)
"""What is typed stays as it is typed."""
KEPT = {
    "API",
    "CPU",
    "GPU",
    "GiB",
    "JSON",
    "JobSpec",
    "MiB",
    "NAT",
    "Python",
    "TERM",
    "UTC",
    "commit",
    "config",
    "fleet",
    "forgelet",
}
KEPT |= {
    "Face",
    "fence",
    "GID",
    "Hugging",
    "IANA",
    "Kubernetes",
    "KubeRay",
    "Pod",
    "Ray",
    "RayJob",
    "REST",
    "Slurm",
    "UID",
    "image",
    "kubeconfig",
    "profile",
    "slurmrestd",
    "webhook",
    "yaml",
}
"""Names, and what the glossary calls the same in Chinese."""


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "from starforge.said.sentence import" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    yield f"{path.name}:{node.lineno}", node


def code_in(call: ast.Call) -> str | None:
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def test_every_sentence_of_the_code_is_in_the_catalog_and_gets_its_values() -> None:
    for place, call in calls("say"):
        code = code_in(call)
        if code is None:
            raise AssertionError(f"{place} says a code that nobody can look up")
        given = {keyword.arg for keyword in call.keywords}
        wanted = names_in(MESSAGES[code])
        assert given == wanted or (None in given and given - {None} <= wanted), f"{place} says {code} with {given}"


def test_no_sentence_is_left_over() -> None:
    said = {code_in(call) for _, call in calls("say")}
    assert MESSAGES.keys() - said == set()
    assert LISTS.keys() - {code_in(call) for _, call in calls("say_list")} == set()


@pytest.mark.parametrize("code", sorted(MESSAGES))
def test_a_sentence_is_said_in_chinese_with_every_value_and_no_english(code: str) -> None:
    values: dict[str, str | int] = {name: f"«{name}»" for name in names_in(MESSAGES[code])}
    told = load_words(CHINESE).said(say(code, **values)).unescape()
    assert all(str(value) in told for value in values.values())
    without = COMMAND.sub("", re.sub("«[a-z_]+»", "", told))
    assert set(re.findall("[A-Za-z]{3,}", without)) <= KEPT


def test_a_sentence_within_another_is_said_in_the_same_language() -> None:
    said = say_list("list.semicolon", [say("note.waiting", node="n1", why=say("host.no_answer", s="3")), "<b> & more"])
    assert load_words(CHINESE).said(said) == "等待 n1：3 秒内没有应答；&lt;b&gt; &amp; more"  # noqa: RUF001 - Chinese
    assert load_words(ENGLISH).said(said) == "waiting for n1: no answer within 3 s; &lt;b&gt; &amp; more"


def test_what_the_catalog_cannot_say_stays_in_english_and_is_marked_so() -> None:
    words = load_words(CHINESE)
    for text in ("someone's words", Said("of a later version", "note.later"), Said("gone", "exit.code", {"other": 1})):
        assert words.said(text) == str(text).replace("'", "&#39;")
    assert words.lang("someone's words") == ' lang="en"'
    assert words.lang(say("note.to_start")) == ""
    assert load_words(ENGLISH).lang(say("note.to_start")) == ' lang="en"'


def test_english_is_found_where_it_is_shown_or_spoken_and_not_in_code() -> None:
    assert find_english('<p title="what is it for">不<b>this one</b><code>not in here at all</code></p>') == [
        "what is it for"
    ]
    assert find_english("<p>等待 it has told nothing yet<br>好</p>") == ["it has told nothing yet"]
    assert find_english("<pre>one two three four</pre><p>GPU 与 fleet lab</p>") == []
