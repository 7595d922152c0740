"""Runs `sf` as a user would, in a folder of the test's own, with a console on loopback where one is asked for."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.tests.client.server import TOKEN, ConsoleState, serve
from core.tests.workspace.trees import commit_tree, write_project
from starforge.cli.main import main


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Sf = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a home and a configuration of its own."""
    for name in ("SF_SERVER", "SF_TOKEN", "XDG_CONFIG_HOME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SF_CONFIG_DIR", str(tmp_path / "config"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def sf(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sf:
    """Run `sf` with these words in `folder`."""

    def run(*words: str, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    assert folder.is_dir()
    return run


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed project with the custom experiment `first`, which is the present folder."""
    commit_tree(write_project(folder / "demo"))
    monkeypatch.chdir(folder / "demo")
    return folder / "demo"


@pytest.fixture
def state() -> ConsoleState:
    return ConsoleState()


@pytest.fixture
def server(state: ConsoleState, sf: Sf) -> Iterator[str]:
    """The address of a console that the user is signed in at."""
    with serve(state) as url:
        assert sf("login", "--server", url, stdin=TOKEN + "\n").code == 0
        yield url
