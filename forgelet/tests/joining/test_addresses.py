"""Addresses that an administrator gives when a machine joins."""

import pytest

from starforge.errors import InputError
from starforge_forgelet.joining import check_server, find_own_address


@pytest.mark.parametrize(
    "server", ["", "forge.corp", "ftp://forge.corp", "https://", "https://forge.corp?x=1", "http://["]
)
def test_what_is_no_address_of_a_console_is_refused(server: str) -> None:
    with pytest.raises(InputError, match="no address of a console"):
        check_server(server)


def test_the_address_that_faces_the_console_is_found() -> None:
    assert find_own_address("http://127.0.0.1:7080") == "127.0.0.1"
