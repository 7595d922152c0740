"""Completion in the shell, as the quickstart switches it on."""

import re
from pathlib import Path

import pytest

from core.tests.cli.conftest import Sf


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sf", "jo"), {"job"}),
        (("sf", "job", "lo"), {"logs"}),
        (("sf", "job", "logs", "--ta"), {"--tail"}),
        (("sf", "webhook", "add", "URL", "--event", "fa"), {"failed"}),
    ],
)
def test_commands_options_and_choices_are_offered(
    sf: Sf, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], offered: set[str]
) -> None:
    monkeypatch.setenv("_SF_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert {line.partition(",")[2] for line in sf().out.splitlines()} == offered


@pytest.mark.parametrize("guide", ["docs/en/quickstart.md", "docs/zh-Hans/quickstart.md"])
def test_what_the_guide_says_switches_it_on(
    sf: Sf, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, guide: str
) -> None:
    text = Path(request.config.rootpath / guide).read_text("utf-8")
    found = re.findall(r"_SF_COMPLETE=(\w+) sf", text)
    assert found == ["bash_source", "zsh_source", "fish_source"]
    for shell in found:
        monkeypatch.setenv("_SF_COMPLETE", shell)
        assert "_SF_COMPLETE" in sf().out
