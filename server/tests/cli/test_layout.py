from pathlib import Path

import click
from click.testing import CliRunner, Result

from starforge_console.cli.main import main


def call(state: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"FORGE_CONSOLE_STATE_DIR": str(state)})


def test_an_error_stands_in_columns_as_those_of_sf_do(tmp_path: Path) -> None:
    done = call(tmp_path / "none", "token", "create", "--user", "admin")
    assert (done.exit_code, done.stdout) == (2, "")
    assert [line[:8] for line in done.stderr.splitlines()] == ["error:  ", "why:    ", "next:   "]


def test_a_command_line_that_cannot_be_understood_is_told_in_the_same_way(tmp_path: Path) -> None:
    for arguments in (("token", "create"), ("nope",), ("serve", "--nope")):
        done = call(tmp_path, *arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert [line[:8] for line in done.stderr.splitlines()] == ["error:  ", "next:   "]


def test_without_a_command_the_help_is_shown(tmp_path: Path) -> None:
    done = call(tmp_path)
    assert done.exit_code == 2
    assert "Commands:" in done.stderr


def test_the_help_shows_every_line_whole_in_80_columns() -> None:
    text = main.get_help(click.Context(main, info_name="starforge-console", terminal_width=80))
    assert "..." not in text.partition("Commands:")[2]
    assert max(map(len, text.splitlines())) <= 80
