import pytest

from starforge.cli.same_again import find_profiles
from starforge.hardware.profiles import Profile, Share, build_resources

REGISTRY = {
    "h200": Profile(name="h200", series="h200", gpus=1, gpus_per_node=8),
    "h200-large": Profile(name="h200-large", series="h200", gpus=1, gpus_per_node=8, cpus=64.0),
    "b300": Profile(name="b300", series="b300", gpus=4, gpus_per_node=4),
}
ROLES = ("actor", "critic", "rollout")


@pytest.mark.parametrize(
    "texts",
    [
        ["cpu"],
        ["any"],
        ["any:3"],
        ["h200"],
        ["h200:16"],
        ["h200-large:8"],
        ["b300"],
        ["actor,critic=h200:8", "rollout=b300:8"],
        ["critic,actor=h200:8", "rollout=h200-large:2"],
        ["actor=h200:1", "critic=cpu", "rollout=any:2"],
    ],
)
@pytest.mark.parametrize("share", [Share(), Share(cpus=4.0, memory_bytes=1 << 30)])
def test_the_profiles_that_are_found_ask_for_the_same_machines(texts: list[str], share: Share) -> None:
    asked = build_resources(texts, REGISTRY, ROLES, share)
    found = find_profiles(asked, REGISTRY, ROLES, share)
    assert found is not None
    assert build_resources(found, REGISTRY, ROLES, share) == asked


def test_what_no_profile_asks_for_any_more_is_not_guessed() -> None:
    asked = build_resources(["h200-large:2"], REGISTRY, ROLES)
    assert find_profiles(asked, {"h200": REGISTRY["h200"]}, ROLES, Share()) is None
    assert find_profiles(asked, REGISTRY, ROLES, Share(cpus=1.0)) is None
