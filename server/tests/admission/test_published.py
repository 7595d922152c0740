"""What FORGE_METHODS publishes."""

import pytest

from starforge.recipes.catalog import load_catalog
from starforge_console.admission.published import build_published
from starforge_console.errors import SettingsError

CATALOG = load_catalog()
NEWEST, *_, OLDEST = CATALOG["trl/sft"].framework_versions


def test_everything_is_published_unless_a_setting_says_otherwise() -> None:
    published = build_published(CATALOG, "*")
    assert list(published) == list(CATALOG)
    assert published["trl/sft"] is CATALOG["trl/sft"]


def test_patterns_choose_methods() -> None:
    published = build_published(CATALOG, "trl/* custom/custom")
    assert set(published) == {name for name in CATALOG if name.startswith("trl/") or name == "custom/custom"}
    assert "evalkit/benchmark" not in published
    with pytest.raises(KeyError):
        published["evalkit/benchmark"]


def test_a_version_publishes_that_one_alone_and_leaves_the_digest_as_it_is() -> None:
    recipe = build_published(CATALOG, f"trl/sft@{OLDEST}")["trl/sft"]
    assert recipe.framework_versions == (OLDEST,)
    assert recipe.digest == CATALOG["trl/sft"].digest


def test_several_patterns_add_up() -> None:
    recipe = build_published(CATALOG, f"trl/sft@{OLDEST} trl/s*@{NEWEST}")["trl/sft"]
    assert recipe.framework_versions == (NEWEST, OLDEST)
    assert build_published(CATALOG, f"trl/sft@{OLDEST} trl/*")["trl/sft"] == CATALOG["trl/sft"]


def test_a_pattern_over_methods_takes_only_those_that_have_the_version() -> None:
    published = build_published(CATALOG, f"*@{OLDEST}")
    assert "custom/custom" not in published
    assert "trl/sft" in published


@pytest.mark.parametrize(
    ("methods", "told"),
    [("trl/sfd", "trl/sft"), ("nemo-rl2/*", "no such method"), ("trl/sft@0.1", NEWEST), ("  ", "write *")],
)
def test_a_pattern_that_publishes_nothing_keeps_the_console_from_starting(methods: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        build_published(CATALOG, methods)
    assert told in str(refused.value)
