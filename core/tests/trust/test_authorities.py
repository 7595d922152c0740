"""Whom callers trust: read once, and again only after a failure."""

import asyncio
import ssl
from pathlib import Path

import pytest

from starforge.trust.authorities import Authorities


def load_often(authorities: Authorities, number: int) -> list[ssl.SSLContext]:
    async def load() -> list[ssl.SSLContext]:
        return list(await asyncio.gather(*(authorities.load() for _ in range(number))))

    return asyncio.run(load())


def test_however_many_ask_at_once_get_one_context_which_compares_names() -> None:
    contexts = load_often(Authorities(), 20)
    assert len({id(one) for one in contexts}) == 1
    assert contexts[0].check_hostname
    assert contexts[0].verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_cannot_be_read_is_told_by_its_setting_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    authorities = Authorities()
    with pytest.raises(OSError, match="SSL_CERT_FILE"):
        load_often(authorities, 1)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert load_often(authorities, 1)
