import subprocess
import sys
from pathlib import Path

import click
import pytest

from core.tests.cli.conftest import Sf
from starforge.cli.lazy import LazyGroup
from starforge.cli.main import root

HEAVY = {"pydantic", "httpx2", "ruamel", "rich", "backports", "starforge.contract.jobspec"}


def loaded_by(*words: str) -> set[str]:
    program = (
        "import sys\n"
        "from starforge.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print('|'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    return set(done.stderr.strip().rsplit("\n", 1)[-1].split("|"))


@pytest.mark.parametrize("words", [["--help"], ["job", "--help"], ["version"]], ids=" ".join)
def test_help_and_version_load_nothing_heavy(words: list[str]) -> None:
    loaded = loaded_by(*words)
    assert "click" in loaded
    assert {name for name in loaded if name in HEAVY or name.split(".")[0] in HEAVY} == set()


@pytest.mark.usefixtures("project")
def test_checking_an_experiment_loads_no_http_client() -> None:
    loaded = loaded_by("validate", "first")
    assert "ruamel.yaml" in loaded
    assert "httpx2" not in loaded


def every_command(group: LazyGroup, prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str, click.Command]]:
    found = []
    context = click.Context(group)
    for name, entry in group.lazy.items():
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*prefix, name), entry.help, command))
        if isinstance(command, LazyGroup):
            found += every_command(command, (*prefix, name))
    return found


COMMANDS = every_command(root)


@pytest.mark.parametrize(("words", "help_line", "command"), COMMANDS, ids=[" ".join(words) for words, _, _ in COMMANDS])
def test_the_line_in_the_groups_help_is_the_commands_own_first_line(
    words: tuple[str, ...], help_line: str, command: click.Command
) -> None:
    assert (command.help or "").partition("\n")[0] == help_line, words


@pytest.mark.parametrize(("words", "command"), [(w, c) for w, _, c in COMMANDS if not isinstance(c, click.Group)])
def test_every_command_speaks_json_and_says_how_it_looks(words: tuple[str, ...], command: click.Command) -> None:
    assert any("--json" in parameter.opts for parameter in command.params), words
    assert "JSON" in (command.help or ""), words


@pytest.mark.parametrize("words", [(), *(words for words, _, _ in COMMANDS)], ids=" ".join)
def test_help_keeps_the_lines_that_belong_apart_and_shows_no_mark_of_it(sf: Sf, words: tuple[str, ...]) -> None:
    assert "\\b" not in sf(*words, "--help").out


def test_a_command_that_does_not_exist_is_answered_with_the_nearest(sf: Sf) -> None:
    result = sf("submitt")
    assert result.code == 2
    assert "Did you mean 'submit'?" in result.err


def test_an_error_says_what_why_and_what_next_on_stderr_and_ends_with_its_code(sf: Sf) -> None:
    result = sf("ls")
    assert (result.code, result.out) == (2, "")
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["error", "why", "next"]


def test_with_json_an_error_is_json_too(sf: Sf) -> None:
    error = sf("ls", "--json").json["error"]
    assert error["code"] == "project_invalid"
    assert set(error) == {"code", "what", "why", "next_step", "refusals"}


def test_no_colour_is_written_to_what_is_no_terminal(sf: Sf) -> None:
    result = sf("ls")
    assert "\x1b" not in result.err + result.out


@pytest.mark.usefixtures("project")
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    program = (
        f"{sys.executable} -m starforge.cli.main pack first --json | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_disk_that_is_full_is_told_and_is_no_traceback(options: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        argv = [sys.executable, "-m", "starforge.cli.main", "methods", *options]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "run the command again" in done.stderr
    assert "Traceback" not in done.stderr
