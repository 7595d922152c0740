import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from e2e.support.owned import MEMORY, owned_folder
from starforge_console.cli.main import main

LINK = re.compile(r"http://127\.0\.0\.1:7080/signin/[A-Za-z0-9_-]{43}\n")
TOKEN = re.compile(r"sfp_[A-Za-z0-9_-]{43}\n")


class Command:
    """The command in a process of the test's own, with state and storage of the test's own."""

    def __init__(self, root: Path, secrets: Path) -> None:
        self.state = root / "state"
        self.env = {
            "FORGE_CONSOLE_STATE_DIR": str(self.state),
            "FORGE_STORAGE_ROOT": str(root / "storage"),
            "FORGE_PUBLIC_URL": "http://127.0.0.1:7080",
            "FORGE_SECRETS_DIR": str(secrets / "made-by-the-console"),
            "FORGE_DOCKER_SOCKET": str(root / "docker.sock"),
            "FORGE_GPU_RUNTIME": "none",
        }

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, env=self.env)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with owned_folder(MEMORY) as secrets:
        yield Command(tmp_path, secrets)


def test_init_prints_a_sign_in_link_and_nothing_else_on_standard_output(command: Command) -> None:
    done = command("init", "--admin", "ann")
    assert done.exit_code == 0, done.stderr
    assert LINK.fullmatch(done.stdout)
    assert "sign in as ann" in done.stderr


def test_init_refuses_a_secrets_folder_on_a_disk_before_it_makes_anything(command: Command, tmp_path: Path) -> None:
    command.env["FORGE_SECRETS_DIR"] = str(tmp_path / "secrets")
    done = command("init")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "secrets must never reach a disk" in done.stderr
    assert "set FORGE_SECRETS_DIR=/dev/shm/starforge" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_init_warns_of_an_engine_that_does_not_answer_and_goes_on(command: Command) -> None:
    done = command("init")
    assert done.exit_code == 0
    assert f"warning: the Docker engine at {command.env['FORGE_DOCKER_SOCKET']} does not answer" in done.stderr
    assert "FORGE_GPU_RUNTIME" not in done.stderr


def test_init_asks_nothing_of_an_engine_where_jobs_run_on_other_machines_alone(command: Command) -> None:
    command.env["FORGE_DEFAULT_FLEET_KIND"] = "node"
    done = command("init")
    assert done.exit_code == 0
    assert "Docker" not in done.stderr
    assert "next: starforge-console serve" in done.stderr


def test_init_warns_of_gpus_that_are_not_known_with_the_cure(command: Command, tmp_path: Path) -> None:
    command.env |= {"FORGE_GPU_RUNTIME": "nvidia", "PATH": str(tmp_path)}
    done = command("init")
    assert done.exit_code == 0
    assert "nvidia-smi cannot be run" in done.stderr
    assert "for a machine without GPUs set FORGE_GPU_RUNTIME=none" in done.stderr


def test_init_again_says_so_and_prints_no_link(command: Command) -> None:
    command("init")
    done = command("init")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "was set up before, with admin as its administrator" in done.stderr


def test_a_new_link_is_for_the_administrator_who_is_there(command: Command) -> None:
    first = command("init", "--admin", "ann").stdout
    done = command("init", "--new-link")
    assert LINK.fullmatch(done.stdout)
    assert done.stdout != first
    assert "sign in as ann" in done.stderr


def test_a_new_link_is_for_the_administrator_who_is_named(command: Command) -> None:
    command("init", "--admin", "ann")
    command("user", "add", "bob", "--role", "admin")
    done = command("init", "--new-link", "--admin", "bob")
    assert (bool(LINK.fullmatch(done.stdout)), "sign in as bob" in done.stderr) == (True, True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", "there is no user 'nobody'"),
        ("eve", "eve is member, and no administrator"),
        ("old", "user old may not sign in"),
    ],
)
def test_nobody_else_is_given_a_link_in_the_place_of_who_is_named(command: Command, name: str, said: str) -> None:
    command("init", "--admin", "ann")
    command("user", "add", "eve")
    command("user", "add", "old", "--role", "admin")
    command("user", "set", "old", "--inactive")
    done = command("init", "--new-link", "--admin", name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr


def test_a_token_is_printed_alone(command: Command) -> None:
    command("init")
    done = command("token", "create", "--user", "admin", "--scopes", "read,submit,admin", "--days", "1")
    assert done.exit_code == 0, done.stderr
    assert TOKEN.fullmatch(done.stdout)
    assert done.stderr == ""


def test_a_token_is_made_while_another_process_writes_to_the_ledger(command: Command) -> None:
    command("init")
    console = sqlite3.connect(command.state / "ledger.db", isolation_level=None)
    try:
        console.execute("INSERT INTO facts VALUES ('written', 'by the console')")
        assert TOKEN.fullmatch(command("token", "create", "--user", "admin").stdout)
        assert console.execute("SELECT count(*) FROM tokens WHERE kind = 'personal'").fetchone() == (1,)
    finally:
        console.close()


def test_a_user_is_added_with_a_link(command: Command) -> None:
    command("init")
    assert LINK.fullmatch(command("user", "add", "bob").stdout)
    assert TOKEN.fullmatch(command("token", "create", "--user", "bob").stdout)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("token", "create", "--user", "admni"), 1, "did you mean 'admin'?"),
        (("token", "create", "--user", "admin", "--scopes", "fly"), 2, "there is no scope 'fly'"),
        (("token", "create", "--user", "admin", "--days", "0"), 2, "cannot live 0 days"),
        (("user", "add", "admin"), 1, "there is a user 'admin' already"),
        (("user", "add", "Not A Name"), 2, "cannot be the name of a user"),
    ],
)
def test_an_error_says_what_to_do_and_prints_nothing_on_standard_output(
    command: Command, arguments: tuple[str, ...], exit_code: int, said: str
) -> None:
    command("init")
    done = command(*arguments)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_console_that_was_not_set_up_names_init(command: Command) -> None:
    done = command("token", "create", "--user", "admin")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "starforge-console init" in done.stderr


def test_all_settings_that_cannot_be_used_are_named_at_once(command: Command) -> None:
    command.env |= {"FORGE_LISTEN": "nowhere", "FORGE_LOG_FORMAT": "poem", "FORGE_STORAGE_ROOT": "relative"}
    done = command("init")
    assert done.exit_code == 2
    for name in ("FORGE_LISTEN", "FORGE_LOG_FORMAT", "FORGE_STORAGE_ROOT"):
        assert f"{name}: " in done.stderr


@pytest.mark.parametrize(
    ("root", "why"),
    [
        ("{tmp}", "lies there"),
        ("{tmp}/links/here", "lies there"),
        ("{tmp}/memory", "lies there"),
        ("/srv/data:/usr", "image's own"),
        ("{tmp}/links/usr", "image's own"),
    ],
)
def test_a_data_root_that_would_show_or_hide_too_much_is_refused(
    command: Command, tmp_path: Path, root: str, why: str
) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "here").symlink_to(tmp_path)
    (tmp_path / "links" / "usr").symlink_to("/usr")
    command.env["FORGE_DATA_ROOTS"] = root.format(tmp=tmp_path)
    command.env["FORGE_SECRETS_DIR"] = str(tmp_path / "memory" / "secrets")
    done = command("init")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "FORGE_DATA_ROOTS names" in done.stderr
    assert re.search(why, done.stderr)


def test_a_setting_that_nothing_reads_is_told(command: Command) -> None:
    command.env["FORGE_LISTNE"] = "127.0.0.1:1"
    done = command("init")
    assert done.exit_code == 0
    assert "FORGE_LISTNE is set, and nothing reads it" in done.stderr
