"""Slurm's notations, and which version is spoken."""

import pytest

from starforge_console.executors.slurm.decode.notations import Gres, expand_hosts, parse_gres
from starforge_console.executors.slurm.decode.structured import Structured
from starforge_console.executors.slurm.versions import UnknownVersions, choose_dialect


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[1-3,07],login", ("n1", "n2", "n3", "n07", "login")),
        ("a[09-11]-ib", ("a09-ib", "a10-ib", "a11-ib")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("None assigned", ()),
        ("n[a-b,-]", ("na-b", "n-")),
    ],
)
def test_a_list_of_hosts_is_expanded(text: str, hosts: tuple[str, ...]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("(null)", ()),
        ("N/A", ()),
        ("gpu:h200:8", (Gres("gpu", "h200", 8, None),)),
        ("gpu:4", (Gres("gpu", "", 4, None),)),
        ("gpu:h200:8(S:0-1)", (Gres("gpu", "h200", 8, None),)),
        ("gpu:h200:3(IDX:0-1,5)", (Gres("gpu", "h200", 3, (0, 1, 5)),)),
        ("gpu:h200:0(IDX:N/A)", (Gres("gpu", "h200", 0, None),)),
        ("gpu:a100:2(IDX:0-1),gpu:h100:1(IDX:4),shard:8", (
            Gres("gpu", "a100", 2, (0, 1)), Gres("gpu", "h100", 1, (4,)), Gres("shard", "", 8, None)
        )),
        ("gres:gpu:h200:2", (Gres("gpu", "h200", 2, None),)),
        ("gres/gpu:h200:2", (Gres("gpu", "h200", 2, None),)),
        ("gpu:h200:2(IDX:1-)", (Gres("gpu", "h200", 2, None),)),
        ("gpu:h200:99999999999,gpu:l40s:1", (Gres("gpu", "l40s", 1, None),)),
    ],
)  # fmt: skip
def test_generic_resources_are_read(text: str, found: tuple[Gres, ...]) -> None:
    assert parse_gres(text) == found


def test_the_newest_version_that_both_sides_know_is_spoken() -> None:
    served = [
        "/slurm/v0.0.38/jobs",
        "/slurm/v0.0.41/jobs",
        "/slurm/v0.0.99/jobs",
        "/slurmdb/v0.0.41/jobs",
        "/openapi/v3",
    ]
    dialect = choose_dialect(served)
    assert (dialect.version, dialect.accounting) == ("v0.0.41", "v0.0.41")
    assert isinstance(dialect.family, Structured)


def test_versions_that_nobody_speaks_are_refused_with_what_was_offered() -> None:
    with pytest.raises(UnknownVersions, match=r"offers v0\.0\.9, v0\.0\.99, and this console speaks v0\.0\.37"):
        choose_dialect(["/slurm/v0.0.99/jobs", "/slurm/v0.0.9/jobs"])
    with pytest.raises(UnknownVersions, match="no version at all"):
        choose_dialect([])
