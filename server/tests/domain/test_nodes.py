import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.nodes import LONGEST_NAME, explain_unreachable, name_node


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("gpu7", "gpu7"),
        ("GPU7.cluster.example.org", "gpu7"),
        ("gpu_7", "gpu-7"),
        ("-gpu--7-", "gpu-7"),
        ("机器", "node"),
        ("", "node"),
        ("...", "node"),
        ("x" * 60, "x" * 40),
    ],
)
def test_a_name_derives_from_the_hosts_first_label(hostname: str, name: str) -> None:
    assert name_node(hostname, set()) == name


def test_a_taken_name_gets_the_next_number_and_stays_within_its_length() -> None:
    assert name_node("gpu7", {"gpu7", "gpu7-2"}) == "gpu7-3"
    assert name_node("x" * 60, {"x" * 40}) == "x" * 38 + "-2"


@given(st.lists(st.text(max_size=60), max_size=20))
def test_names_are_always_fresh_and_well_formed(hostnames: list[str]) -> None:
    taken: set[str] = set()
    for hostname in hostnames:
        name = name_node(hostname, taken)
        assert name not in taken
        assert 0 < len(name) <= LONGEST_NAME
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert name.strip("-") == name
        taken.add(name)


@pytest.mark.parametrize(
    ("advertise", "joined_from", "suspects"),
    [
        ("192.168.9.2:7070", "203.0.113.5", True),
        ("[fd00::7]:7070", "2001:db8::1", True),
        ("10.0.0.7:7070", "10.0.0.7", False),
        ("10.0.0.7:7070", "::ffff:10.0.0.7", False),
        ("gpu7.example.org:7070", "203.0.113.5", False),
        ("10.0.0.7:7070", "unknown", False),
        ("10.0.0.7:7070", "", False),
    ],
)
def test_address_translation_is_suspected_where_the_join_came_from_another_address(
    advertise: str, joined_from: str, *, suspects: bool
) -> None:
    explained = explain_unreachable("timed out", advertise, joined_from)
    assert explained.startswith("timed out")
    assert ("NAT?" in explained) is suspects
    assert explain_unreachable("", advertise, joined_from) == ""
