"""The runner's smaller parts: archive, versions, cgroup counters, the contract's documents."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import find_interpreters, hash_of
from starforge.contract import capsule as contract
from starforge.contract.canonical import digest_bytes
from starforge.runner.archive import build_archive, build_runner, collect_sources
from starforge.runner.memory import find_memory_counters
from starforge.runner.versions import RangeError, is_in_range

CORE = Path(contract.__file__).parents[2]


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_the_archives_sources_have_the_same_bytes_from_another_path_umask_time_and_python(
    tmp_path: Path, interpreter: str
) -> None:
    code = (
        "import hashlib; from starforge.runner.archive import build_archive, collect_sources;"
        "print(hashlib.sha256(build_archive(collect_sources())).hexdigest())"
    )

    assert _run_elsewhere(tmp_path, interpreter, code) == digest_bytes(build_archive(collect_sources())).split(":")[1]


@pytest.mark.parametrize("imported", ["sys", "starforge.runner.main, starforge.runner.rest, typing, dataclasses"])
def test_the_archive_has_the_same_bytes_from_another_path_umask_and_time_whatever_else_was_imported(
    tmp_path: Path, imported: str
) -> None:
    there = tmp_path / "there.pex"
    code = (
        f"import {imported}; import pathlib; from starforge.runner.archive import build_runner;"
        f"print(build_runner(pathlib.Path({str(there)!r})))"
    )
    told = _run_elsewhere(tmp_path, sys.executable, code)

    assert told == build_runner(tmp_path / "here.pex") == hash_of(tmp_path / "here.pex") == hash_of(there)


def _run_elsewhere(folder: Path, interpreter: str, code: str) -> str:
    """What `code` prints with a copy of the sources, on which nothing but their content is the same."""
    copy = folder / "elsewhere"
    subprocess.run(["cp", "-r", str(CORE), str(copy)], check=True)
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    begin = f"import os, sys; os.umask(0o077); sys.path.insert(0, {str(copy)!r});"
    environment = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([interpreter, "-c", begin + code], capture_output=True, text=True, check=True, env=environment)
    return ran.stdout.strip()


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_the_python_that_built_the_archive_takes_its_compiled_code_and_every_other_one_the_source(
    runner_archive: Path, interpreter: str
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(runner_archive)!r}); from starforge.runner import versions;"
        "print(sys.implementation.cache_tag, versions.is_in_range.__code__.co_filename)"
    )
    ran = subprocess.run([interpreter, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    tag, file = ran.stdout.split()

    compiled, source = "starforge/runner/versions.py", str(runner_archive / "starforge/runner/versions.py")
    assert file == (compiled if tag == sys.implementation.cache_tag else source)


def test_the_runner_says_how_it_is_used(runner_archive: Path) -> None:
    ran = subprocess.run([sys.executable, str(runner_archive)], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, b"starforge: usage: python runner.pex run\n")


@pytest.mark.parametrize(
    ("version", "specifier", "fits"),
    [
        ("0.9.6", ">=1.9,<2", False),
        ("1.9", ">=1.9,<2", True),
        ("1.10.0", ">=1.9", True),
        ("2.0", ">=1.9,<2", False),
        ("2.0rc1", "<2", False),
        ("2.0rc1", ">=1.9,<2.0rc2", True),
        ("2.6.0a0+ecf3bae.nv25", ">=2.6", False),
        ("2.6.0+cu124", "==2.6.0", True),
        ("2.6.0+cu124", "==2.6.0+cu121", False),
        ("2.6.0", "==2.6.*", True),
        ("2.60", "!=2.6.*", True),
        ("1.4.9", "~=1.4.2", True),
        ("1.5", "~=1.4.2", False),
        ("1.0.post1", ">1.0", False),
        ("1.0.post1", ">=1.0", True),
        ("1!1.0", ">2", True),
        ("1.0", "", True),
        ("1.0-weird", "===1.0-weird", True),
    ],
)
def test_ranges_mean_what_pep_440_says(version: str, specifier: str, fits: bool) -> None:  # noqa: FBT001 - a column
    assert is_in_range(version, specifier) is fits


@pytest.mark.parametrize(("version", "specifier"), [("unknown", ">=1"), ("1.0", "1.0"), ("1.0", "~=1"), ("1.0", ">=x")])
def test_what_is_no_version_or_range_is_an_error(version: str, specifier: str) -> None:
    with pytest.raises(RangeError):
        is_in_range(version, specifier)


def test_counters_of_both_cgroup_versions_are_read_and_missing_ones_are_none(tmp_path: Path) -> None:
    v2, v1 = tmp_path / "v2", tmp_path / "v1"
    v2.mkdir()
    v1.mkdir()
    (v1 / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (v1 / "memory.max_usage_in_bytes").write_text("4096\n")
    old = find_memory_counters(str(v2), str(v1))
    assert (old["oom_kill"], old["peak_bytes"], old["limit_bytes"]) == (2, 4096, None)

    (v2 / "memory.events").write_text("low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n")
    (v2 / "memory.max").write_text("max\n")
    new = find_memory_counters(str(v2), str(v1))
    assert (new["oom"], new["oom_kill"], new["peak_bytes"], new["limit_bytes"]) == (1, 1, None, None)
    assert set(find_memory_counters("/nowhere", "/nowhere").values()) == {None}


CAPSULE = contract.Capsule(
    version="1.0",
    job="j0123456789",
    attempt="j0123456789-1-abcdef",
    number=1,
    node_count=2,
    spec={"kind": "TrainingJob"},
    plan=contract.Plan(
        argv=("train",),
        metric_sources=(contract.MetricSource("jsonl", "log.jsonl"),),
        checkpoint=contract.CheckpointRule("folders", "checkpoint-*", ("a",)),
        complete=contract.CompleteRule("steps", 80),
    ),
    requirements=contract.Requirements(">=3.9", (contract.Requirement("trl", ">=1.9,<2"),), 2),
    workspace=contract.Workspace("/blobs/x", "sha256:00"),
    ingest=contract.Ingest("https://console", "pem"),
    limits=contract.Limits(30.0, 60.0),
    resume_from=("/a", "/b"),
)


def test_a_capsule_survives_its_json() -> None:
    assert contract.Capsule.from_json(json.loads(json.dumps(CAPSULE.to_json()))) == CAPSULE


def test_members_of_a_newer_console_are_ignored() -> None:
    document = CAPSULE.to_json() | {"version": "1.7", "later": 1}
    document["plan"]["later"] = 1
    assert contract.Capsule.from_json(document).plan == CAPSULE.plan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "2.0"}, "has version '2.0', this program reads 1.x"),
        ({"number": "1"}, "Capsule.number must be a value of type int, not '1'"),
        ({"number": True}, "Capsule.number"),
        ({"resume_from": [1]}, r"Capsule.resume_from\[0\]"),
        ({"limits": {"grace_s": None}}, "Capsule.limits.grace_s"),
        ({"plan": {}}, "Capsule.plan lacks its member 'argv'"),
    ],
)
def test_a_document_that_is_wrong_is_refused_by_member(change: dict[str, object], said: str) -> None:
    with pytest.raises(contract.CapsuleError, match=said):
        contract.Capsule.from_json(CAPSULE.to_json() | change)


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(
        contract.CapsuleError, match=r"ControlFile\.desired must be one of run, stop, pause, not 'halt'"
    ):
        contract.ControlFile.from_json({"desired": "halt"})
