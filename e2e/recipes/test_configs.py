"""Configurations as people bring them along: each through `sf validate`, against what is written beside it."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.recipes.conftest import Client

FOLDER: Final = Path(__file__).parent / "configs"
CASES: Final[list[dict[str, Any]]] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
HEAD: Final = (
    b"image: registry.local/train:1\nmodel: hf://demo/model\ndata: {train: hf://demo/data}\nhyperparameters:\n"
)
MARK: Final = b"\xef\xbb\xbf"


def write_config(experiment: Path, content: bytes) -> int:
    """The content as the experiment's hyperparameters; gives how many lines stand before them."""
    mark = MARK if content.startswith(MARK) else b""
    lines = [b"  " + line for line in content.removeprefix(mark).splitlines(keepends=True)]
    (experiment / "config.yaml").write_bytes(mark + HEAD + b"".join(lines))
    return HEAD.count(b"\n")


def check(client: Client, project: Path, case: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """What `sf validate` says of the case, and by how many lines its places are moved."""
    content = (FOLDER / case["file"]).read_bytes()
    experiment = project / "experiments/probe"
    words, before = ["validate", "probe", "--json"], 0
    if case["as"] == "config":
        (experiment / "config.yaml").write_bytes(content)
    elif case["as"] == "arguments":
        write_config(experiment, b"")
        words += ["--args", str(FOLDER / case["file"])]
    else:
        before = write_config(experiment, content)
    return client.run(*words, cwd=project).json, before


def find(faults: list[dict[str, Any]], wanted: dict[str, Any], before: int) -> list[dict[str, Any]]:
    """The faults of the wanted code in the wanted line that say what is wanted."""
    line = wanted["line"] + (0 if wanted["code"] == "yaml_bom" else before)
    at_place = [one for one in faults if (one["code"], one["line"]) == (wanted["code"], line) and one["column"] > 0]
    return [one for one in at_place if all(part in f"{one['message']} {one['hint']}" for part in wanted["says"])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['file']} in {case['method']}")
def test_a_configuration_is_taken_or_refused_as_it_should_be(
    client: Client, tmp_path: Path, case: dict[str, Any]
) -> None:
    assert client.run("init", "p", "--no-git", cwd=tmp_path).code == 0
    project = tmp_path / "p"
    made = client.run("new", "probe", "--method", case["method"], "--image", "registry.local/train:1", cwd=project)
    assert made.code == 0, made.err
    said, before = check(client, project, case)
    assert said["ok"] is case["accepted"], said
    for wanted in case["errors"]:
        assert find(said["errors"], wanted, before), (wanted, said["errors"])
    for wanted in case.get("warnings", []):
        assert find(said["warnings"], wanted, before), (wanted, said["warnings"])


def test_a_configuration_that_was_moved_over_is_accepted(client: Client, tmp_path: Path) -> None:
    client.run("init", "p", "--no-git", cwd=tmp_path)
    client.run("new", "probe", "--method", "trl/grpo", cwd=tmp_path / "p")
    lines = (FOLDER / "trl-grpo.yaml").read_bytes().splitlines(keepends=True)
    gone = (b"model_name_or_path", b"dataset_name", b"dataset_configs", b"- all", b"report_to", b"- wandb")
    kept = b"".join(line for line in lines if not line.startswith(gone)).replace(b"torch_dtype", b"dtype")
    experiment = tmp_path / "p/experiments/probe"
    write_config(experiment, kept + b"reward_funcs: [think_format_reward]\n")
    said = client.run("validate", "probe", "--json", cwd=tmp_path / "p").json
    assert (said["ok"], said["errors"]) == (True, [])
