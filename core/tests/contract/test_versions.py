import pytest

from starforge.contract.versions import check_client, parse_release
from starforge.errors import ClientTooOld


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.1.0+forge", (0, 1)), ("10.2", (10, 2)), ("0", ()), ("1.x.2", (1, 2))],
)
def test_a_version_is_compared_by_its_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert parse_release(version) == numbers


@pytest.mark.parametrize("client", ["0.9", "0.9.9", "0"])
def test_an_older_client_is_refused_with_the_version_to_install(client: str) -> None:
    with pytest.raises(ClientTooOld) as raised:
        check_client(client, "0.10.0")
    assert "0.10.0 or newer" in raised.value.next_step


@pytest.mark.parametrize("client", ["0.10", "0.10.0+forge", "0.11", "1"])
def test_a_client_that_is_no_older_is_served(client: str) -> None:
    check_client(client, "0.10.0")
