from collections.abc import Sequence

import pytest

from starforge.contract.jobspec import Pool
from starforge.errors import InputError
from starforge.hardware.profiles import Profile, Share, build_resources

REGISTRY = {
    "h200": Profile(name="h200", series="h200", gpus=1, gpus_per_node=8, cpus=12, memory_bytes=1 << 36),
    "cpu-large": Profile(name="cpu-large", series=None, gpus=0, gpus_per_node=0, cpus=32),
}


def pools(*texts: str, roles: Sequence[str] = ("train",), share: Share | None = None) -> tuple[Pool, ...]:
    return build_resources(texts, REGISTRY, roles, share or Share()).pools


@pytest.mark.parametrize(
    ("text", "series", "nodes", "gpus"),
    [
        ("h200", "h200", 1, 1),
        ("h200:4", "h200", 1, 4),
        ("h200:8", "h200", 1, 8),
        ("h200:16", "h200", 2, 8),
        ("cpu", None, 1, 0),
        ("cpu-large", None, 1, 0),
        ("any", None, 1, 1),
        ("any:3", None, 1, 3),
    ],
)
def test_a_profile_is_one_pool_on_whole_nodes(text: str, series: str | None, nodes: int, gpus: int) -> None:
    (pool,) = pools(text)
    assert (pool.name, pool.series, pool.nodes, pool.gpus_per_node) == ("main", series, nodes, gpus)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h200:12", "ask for h200:8 or h200:16"),
        ("h20:4", "did you mean 'h200'"),
        ("h200:0", "no count of GPUs"),
        ("h200:-1", "no count of GPUs"),
        ("h200:x", "no count of GPUs"),
        ("h200:", "no count of GPUs"),
        ("h200:²", "no count of GPUs"),
        ("cpu:2", "has no GPUs"),
        ("trian=h200", "did you mean 'train'"),
    ],
)
def test_what_cannot_be_met_is_refused_with_what_can(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        pools(text)


def test_no_profile_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="--profile cpu"):
        pools()


def test_one_profile_without_roles_serves_every_role() -> None:
    resources = build_resources(["h200:8"], REGISTRY, ("actor", "rollout"))
    assert dict(resources.roles) == {"actor": "main", "rollout": "main"}


def test_roles_joined_by_a_comma_share_a_pool() -> None:
    resources = build_resources(["actor,ref=h200:8", "rollout=h200:16"], REGISTRY, ("actor", "ref", "rollout"))
    assert dict(resources.roles) == {"actor": "actor-ref", "ref": "actor-ref", "rollout": "rollout"}
    assert [(pool.name, pool.nodes) for pool in resources.pools] == [("actor-ref", 1), ("rollout", 2)]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["actor=h200"], "no profile is named for rollout"),
        (["actor=h200", "actor,rollout=h200"], "'actor' is given two profiles"),
        (["actor=h200", "h200"], "does not say for which roles"),
    ],
)
def test_each_role_is_named_once(texts: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_resources(texts, REGISTRY, ("actor", "rollout"))


def test_the_experiments_own_share_comes_before_the_profiles() -> None:
    (pool,) = pools("h200", share=Share(cpus=4))
    assert (pool.cpus, pool.memory_bytes) == (4, 1 << 36)


def test_a_registry_cannot_change_what_is_built_in() -> None:
    registry = {"cpu": Profile(name="cpu", series="h200", gpus=8, gpus_per_node=8)}
    assert build_resources(["cpu"], registry, ("train",)).pools[0].gpus_per_node == 0
