"""Each reference page follows its source: a difference that somebody plants, in page or source, is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from starforge.errors import Refused, StarForgeError
from starforge_console.settings.console import GROUPS
from tools.docs_check import GENERATED, apply_pages, find_violations
from tools.references import cli, errors, legs, settings
from tools.tests.support.trees import ROOT


@pytest.mark.parametrize(("name", "build_page"), GENERATED.items(), ids=GENERATED)
def test_a_line_changed_by_hand_in_any_page_is_refused(
    tmp_path: Path, name: str, build_page: Callable[[], str]
) -> None:
    apply_pages(tmp_path, {name: build_page})
    page = tmp_path / name
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    middle = len(lines) // 2
    page.write_text("".join([*lines[:middle], "planted\n", *lines[middle:]]), encoding="utf-8")
    (violation,) = find_violations(tmp_path, {name: build_page})
    assert "-planted" in violation


class _Limits(BaseSettings):
    """How much."""

    model_config = SettingsConfigDict(env_prefix="FORGE_")
    room_bytes: int = Field(default=4, ge=1, lt=9, description="How much fits | in.")


def test_a_setting_is_shown_with_default_description_and_bounds() -> None:
    page = settings.build_page([_Limits])
    assert "| `FORGE_ROOM_BYTES` | `4` | How much fits \\| in. | integer, at least 1, below 9 |" in page


def test_a_setting_without_a_description_is_refused() -> None:
    class _Silent(BaseSettings):
        """Nothing said."""

        quiet: int = 1

    with pytest.raises(ValueError, match="QUIET has no description"):
        settings.build_page([_Silent])


def test_every_setting_of_the_console_is_shown_once() -> None:
    page = settings.build_page()
    names = [f"FORGE_{name}".upper() for group in GROUPS for name in group.model_fields]
    assert [page.count(f"| `{name}` |") for name in names] == [1] * len(names)


def test_a_setting_that_is_added_makes_the_page_wrong(tmp_path: Path) -> None:
    apply_pages(tmp_path, {"settings.md": settings.build_page})
    (violation,) = find_violations(tmp_path, {"settings.md": lambda: settings.build_page([*GROUPS, _Limits])})
    assert "+| `FORGE_ROOM_BYTES`" in violation


def test_an_error_has_its_code_status_exit_code_and_what_the_tree_advises() -> None:
    row = next(line for line in errors.build_page().splitlines() if line.startswith("| `not_found` |"))
    assert row.split(" | ")[-3:] == ["name something that exists", "404", "1 |"]


def test_every_code_that_the_console_can_answer_with_is_listed() -> None:
    assert {"ledger_busy", "admission_refused", "too_large", "engine_error"} <= set(errors.find_kinds())
    page = errors.build_page()
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "server/starforge_console/web").rglob("*.py"))
    written = {
        code
        for source in sources
        for code in re.findall(r"\b_?(?:Problem|Told|Fault)\([^()]*?\"([a-z]+_[a-z_]+)\"", source)
    }
    assert {"route_unknown", "method_not_allowed", "request_invalid"} <= written
    assert [code for code in written if f"| `{code}` |" not in page] == []


def test_an_error_that_is_added_makes_the_page_wrong(tmp_path: Path) -> None:
    class _Planted(Refused):
        """Somebody planted this."""

        code = "planted"

    kinds: dict[str, type[StarForgeError]] = {"refused": Refused}
    apply_pages(tmp_path, {"errors.md": lambda: errors.build_page(kinds)})
    (violation,) = find_violations(tmp_path, {"errors.md": lambda: errors.build_page(kinds | {"planted": _Planted})})
    assert "+| `planted` |" in violation
    assert "| 403 | 1 |" in violation


def test_an_option_that_is_added_makes_the_page_of_commands_wrong(tmp_path: Path) -> None:
    def _build(*options: click.Option) -> Callable[[], str]:
        below = click.Command("go", params=[*options])
        return lambda: cli.build_page({"tool": click.Group("tool", {"go": below})})

    apply_pages(tmp_path, {"cli.md": _build()})
    (violation,) = find_violations(tmp_path, {"cli.md": _build(click.Option(["--fast"], help="Go fast."))})
    assert "+  --fast" in violation


def test_every_command_of_the_three_programs_is_there() -> None:
    page = cli.build_page()
    assert "### `sf job logs`\n" in page
    assert "### `starforge-console token create`\n" in page
    assert "## `forgelet`\n" in page


PROJECT = '[tool.pytest.ini_options]\nmarkers = ["engine: needs one", "slow: is slow"]\nparts = ["engine"]\n'


def test_a_leg_has_its_command_and_the_parts_that_it_requires() -> None:
    leg = '[leg.e2e-main]\nabout = "all of it"\nselect = []\nfloor = 3\nparts.engine = 3\nci = true\n'
    page = legs.build_page(leg, PROJECT)
    assert "| `e2e-main` | `make e2e T=main` | all of it | `engine` | yes |" in page
    assert page.endswith("|---|---|\n| `engine` | needs one |\n")


@pytest.mark.parametrize(
    ("leg", "why"),
    [
        ("[leg.test]\nselect = []\n", "leg test has no `about`"),
        ('[leg.other]\nabout = "x"\n', "no command runs leg other"),
        ('[leg.test]\nabout = "x"\nparts.gone = 1\n', "are no markers"),
    ],
)
def test_a_leg_that_a_reader_cannot_run_is_refused(leg: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        legs.build_page(leg, PROJECT)
