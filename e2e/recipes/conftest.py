"""`sf` in a process of its own, in a project of the test's own, far from any console."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.support.projects import git

_SF: Final = Path(sys.executable).parent / "sf"
PROJECT: Final = "apiVersion: forge/project/v1\nname: probe\n"


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - a JSON answer
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Client:
    """`sf` of a user whose home is `home`."""

    home: Path

    def run(self, *words: str, cwd: Path, **variables: str) -> Said:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_GLOBAL": os.devnull, **variables}
        done = subprocess.run([_SF, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    home = tmp_path / "home"
    home.mkdir()
    return Client(home)


def make_project(root: Path, files: Mapping[str, str] | None = None) -> Path:
    """A project in `root`, which may hold something already; committed where `root` lies in a repository."""
    written = {"starforge.yaml": PROJECT, "experiments/first/config.yaml": "image: registry.local/train:1\n"}
    for path, content in {**written, **(files or {})}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    inside = subprocess.run(["git", "rev-parse"], cwd=root, capture_output=True, check=False).returncode == 0
    if inside:
        git(root, "add", *written)
        git(root, "commit", "-q", "-m", "Make it a project")
    return root
