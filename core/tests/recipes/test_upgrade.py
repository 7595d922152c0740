from dataclasses import replace
from typing import Any

import pytest

from starforge.contract.ids import Digest
from starforge.errors import ProjectError
from starforge.recipes.catalog import load_method
from starforge.recipes.lock import build_lock
from starforge.recipes.model import Parameter, Recipe, Runtime
from starforge.recipes.upgrade import build_upgrade, choose_runtime, describe_nearest_version, is_set

TEXTS = {"en": "x", "zh-Hans": "x"}


def parameter(name: str, **members: Any) -> Parameter:
    return Parameter(**{"name": name, "group": "g", "type": "int", "path": name, "help": TEXTS, **members})


def runtime(version: str) -> Runtime:
    return Runtime(id=f"demo-{version}", version=version, image=None, modules={})


@pytest.fixture
def recipe() -> Recipe:
    return replace(
        load_method("custom/custom"),
        name="demo/fit",
        framework="demo",
        runtimes=(runtime("2.0"), runtime("1.10"), runtime("1.9")),
        parameters=(
            parameter("steps"),
            parameter("old", versions="<2"),
            parameter("fresh", versions=">=2"),
            parameter("trainer.every", variants=()),
        ),
    )


def test_another_version_of_the_framework_says_what_comes_and_goes(recipe: Recipe) -> None:
    before = build_lock(recipe, runtime("1.9"))
    after, difference = build_upgrade(recipe, runtime("2.0"), before, {"old": 1, "steps": 2})
    assert after.framework.version == "2.0"
    assert (difference.gone, difference.new, difference.rebound) == (("old",), ("fresh",), ())
    assert difference.touched == ("old",)
    assert {(one.what, one.before, one.after) for one in difference.changes} == {
        ("framework version", "1.9", "2.0"),
        ("runtime", "demo-1.9", "demo-2.0"),
    }


def test_a_newer_recipe_says_what_stands_elsewhere_and_what_the_config_sets_of_it(recipe: Recipe) -> None:
    before = build_lock(recipe, runtime("2.0"))
    moved = parameter("trainer.every", path="trainer.save_every", type="number")
    newer = replace(
        recipe,
        version="2",
        manifest_digest=Digest("sha256:" + "1" * 64),
        parameters=(*recipe.parameters[:3], moved),
    )
    _, difference = build_upgrade(newer, runtime("2.0"), before, {"trainer": {"every": 5}})
    (rebound,) = difference.rebound
    assert (rebound.before.path, rebound.after.path, rebound.after.type) == (
        "trainer.every",
        "trainer.save_every",
        "number",
    )
    assert difference.touched == ("trainer.every",)
    assert [one.what for one in difference.changes] == ["recipe version", "manifest digest"]
    assert difference.to_json()["touched"] == ["trainer.every"]


def test_a_lock_that_is_what_it_would_become_has_no_difference(recipe: Recipe) -> None:
    before = build_lock(recipe, runtime("2.0"))
    after, difference = build_upgrade(recipe, runtime("2.0"), before, {})
    assert after == before
    assert difference.is_empty


def test_a_lock_that_cannot_be_read_is_written_from_the_method_alone(recipe: Recipe) -> None:
    after, difference = build_upgrade(recipe, runtime("2.0"), None, {})
    assert after == build_lock(recipe, runtime("2.0"))
    assert not difference.is_empty


def test_the_lock_keeps_its_version_unless_another_is_asked_for(recipe: Recipe) -> None:
    assert choose_runtime(recipe, None, "1.9").version == "1.9"
    assert choose_runtime(recipe, "2.0", "1.9").version == "2.0"
    assert choose_runtime(load_method("custom/custom"), None, None).version is None


@pytest.mark.parametrize(
    ("asked", "held", "words"),
    [("1.11", "1.9", "did you mean '1.10'"), (None, "1.8", "--to-version with one of 2.0, 1.10, 1.9")],
)
def test_a_version_that_is_not_offered_is_refused_with_those_that_are(
    recipe: Recipe, asked: str | None, held: str, words: str
) -> None:
    with pytest.raises(ProjectError) as refused:
        choose_runtime(recipe, asked, held)
    assert words in str(refused.value)
    assert "2.0, 1.10, 1.9" in str(refused.value)


def test_the_nearest_version_is_nearest_in_value() -> None:
    assert describe_nearest_version("1.8", ("2.0", "1.10", "1.9")) == "did you mean '1.9'?"
    assert describe_nearest_version("3", ("2.0", "1.10", "1.9")) == "did you mean '2.0'?"
    assert describe_nearest_version("1", ()) == "it takes no version"


@pytest.mark.parametrize("values", [{"a.b.c": 1}, {"a": {"b": {"c": 1}}}, {"a.b": {"c": 1}}, {"a": {"b.c": None}}])
def test_a_dotted_name_is_found_however_it_is_written(values: dict[str, Any]) -> None:
    assert is_set(values, "a.b.c")
    assert not is_set(values, "a.b.d")
    assert not is_set(values, "b.c")
