import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from starforge.contract.ids import Digest
from starforge.errors import ProjectError
from starforge.recipes.catalog import load_method
from starforge.recipes.lock import Lock, LockState, build_lock, compare_lock, find_named, load_lock, render_lock
from starforge.recipes.model import Parameter, Recipe

TEXTS = {"en": "x", "zh-Hans": "x"}
OTHER = Digest("sha256:" + "1" * 64)


@pytest.fixture
def recipe() -> Recipe:
    parameter = Parameter(name="lr", group="optim", type="number", path="optim.lr", help=TEXTS)
    return replace(load_method("custom/custom"), parameters=(parameter,))


@pytest.fixture
def lock(recipe: Recipe) -> Lock:
    return build_lock(recipe, recipe.runtimes[0])


def state_of(lock: Lock, recipe: Recipe, core: str = "0.1.0+forge") -> LockState:
    return compare_lock(lock, {recipe.name: recipe}, core).state


def test_a_lock_that_was_written_reads_back_as_it_was(tmp_path: Path, lock: Lock) -> None:
    (tmp_path / "recipe.lock.json").write_text(render_lock(lock))
    assert load_lock(tmp_path / "recipe.lock.json") == lock
    assert json.loads(render_lock(lock))["api_version"] == "forge/recipe-lock/v4"


def test_the_lock_names_the_digest_that_a_jobspec_names(recipe: Recipe, lock: Lock) -> None:
    assert lock.recipe.digest == recipe.digest


def test_a_lock_of_the_same_method_is_current(recipe: Recipe, lock: Lock) -> None:
    assert state_of(lock, recipe) is LockState.CURRENT


def test_a_method_that_changed_around_the_same_bindings_is_compatible(recipe: Recipe, lock: Lock) -> None:
    newer = replace(recipe, version="2", manifest_digest=OTHER)
    standing = compare_lock(lock, {recipe.name: newer}, "0.1.0")
    assert (standing.state, standing.usable) == (LockState.COMPATIBLE, True)
    assert "version 1" in standing.why
    assert "2" in standing.why
    same = compare_lock(lock, {recipe.name: replace(recipe, manifest_digest=OTHER)}, "0.1.0")
    assert (same.state, "another edition of version 1" in same.why) == (LockState.COMPATIBLE, True)


def test_a_damaged_lock_may_still_name_its_method(tmp_path: Path, lock: Lock) -> None:
    file = tmp_path / "recipe.lock.json"
    file.write_text(render_lock(lock).replace("lock/v4", "lock/v3"))
    assert find_named(file) == (lock.recipe.name, lock.framework.version)
    for content in ("{", "[]", "{}", '{"recipe": {"name": 7}}'):
        file.write_text(content)
        assert find_named(file) is None


def test_what_no_upgrade_can_mend_is_told_apart(recipe: Recipe, lock: Lock) -> None:
    needing = lock.model_copy(update={"requires": lock.requires.model_copy(update={"core": "9.0"})})
    assert not compare_lock(needing, {recipe.name: recipe}, "0.1.0").upgradable
    assert not compare_lock(lock, {}, "0.1.0").upgradable
    assert compare_lock(lock, {recipe.name: replace(recipe, runtimes=())}, "0.1.0").upgradable


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": ()},
        {"entry": replace(load_method("custom/custom").entry, value="run.sh")},
        {"parameters": (Parameter(name="lr", group="optim", type="text", path="optim.lr", help=TEXTS),)},
        {"parameters": (Parameter(name="lr", group="optim", type="number", path="lr", help=TEXTS),)},
    ],
    ids=["parameter gone", "other entry", "other type", "other path"],
)
def test_a_method_whose_bindings_changed_is_incompatible(recipe: Recipe, lock: Lock, changes: dict[str, Any]) -> None:
    assert state_of(lock, replace(recipe, manifest_digest=OTHER, **changes)) is LockState.INCOMPATIBLE


def test_a_lock_that_needs_a_newer_core_is_incompatible(recipe: Recipe, lock: Lock) -> None:
    newer = lock.model_copy(update={"requires": lock.requires.model_copy(update={"core": "0.10.0"})})
    assert state_of(newer, recipe, core="0.9.3") is LockState.INCOMPATIBLE
    assert state_of(newer, recipe, core="0.10.0") is LockState.CURRENT


def test_a_runtime_or_method_that_is_gone_is_named(recipe: Recipe, lock: Lock) -> None:
    without = replace(recipe, runtimes=(replace(recipe.runtimes[0], id="custom-2"),))
    assert state_of(lock, without) is LockState.RUNTIME_REMOVED
    assert compare_lock(lock, {}, "0.1.0").state is LockState.RUNTIME_REMOVED


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"recipe": {}}', b"\xff\xfe", b"[" * 200_000])
def test_a_damaged_lock_is_malformed_and_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "recipe.lock.json").write_bytes(content)
    with pytest.raises(ProjectError, match="restore it from git"):
        load_lock(tmp_path / "recipe.lock.json")


def test_a_pipe_or_a_device_in_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(ProjectError, match="is no plain file"):
            load_lock(tmp_path / name)
        assert find_named(tmp_path / name) is None


def test_a_lock_of_another_version_is_malformed(tmp_path: Path, lock: Lock) -> None:
    (tmp_path / "x.json").write_text(render_lock(lock).replace("lock/v4", "lock/v3"))
    with pytest.raises(ProjectError, match="malformed"):
        load_lock(tmp_path / "x.json")
