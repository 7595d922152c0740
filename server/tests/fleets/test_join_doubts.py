"""Whether the address in an install line is one that other machines can reach."""

import pytest

from starforge_console.fleets.join_lines import find_doubt


@pytest.mark.parametrize(
    ("public_url", "listen", "proxies"),
    [
        ("https://forge.corp", "127.0.0.1:7080", ""),  # something takes 443 and hands it on
        ("http://10.0.0.5:7080", "0.0.0.0:7080", ""),
        ("http://10.0.0.5:7080", "[::]:7080", ""),
        ("http://10.0.0.5:7080", "10.0.0.5:7080", ""),
        ("http://10.0.0.5:7080", "127.0.0.1:7080", "10.0.0.9"),
    ],
)
def test_nothing_speaks_against_an_address_that_is_served(public_url: str, listen: str, proxies: str) -> None:
    assert find_doubt(public_url, listen, proxies) == ""


@pytest.mark.parametrize(
    ("public_url", "listen", "named"),
    [
        ("http://127.0.0.1:7080", "127.0.0.1:7080", "FORGE_PUBLIC_URL"),
        ("http://localhost:7080", "0.0.0.0:7080", "FORGE_PUBLIC_URL"),
        ("http://[::1]:7080", "0.0.0.0:7080", "FORGE_PUBLIC_URL"),
        ("http://10.0.0.5:7080", "127.0.0.1:7080", "FORGE_LISTEN"),
        ("http://forge.corp:7080", "[::1]:7080", "FORGE_LISTEN"),
        ("http://forge.corp", "127.0.0.1:80", "FORGE_LISTEN"),
    ],
)
def test_an_address_that_no_other_machine_reaches_names_the_setting(public_url: str, listen: str, named: str) -> None:
    assert find_doubt(public_url, listen).startswith(f"{named} is ")
