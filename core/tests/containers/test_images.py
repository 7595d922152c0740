"""Which images an engine holds, against a socket that answers as engines do."""

from pathlib import Path

import pytest

from core.tests.containers.test_engine import VERSION, answering, reply
from starforge.containers.engine import Engine, EngineError
from starforge.containers.images import Images, find_repository_digest
from starforge.errors import LaunchRefused

ABSENT = reply(b'{"message":"No such image: train:1"}', "404 Not Found")


def test_a_name_that_the_engine_refuses_is_refused_with_its_words(tmp_path: Path) -> None:
    answer = reply(b'{"message":"authorization denied by plugin: not this registry"}', "403 Forbidden")
    with answering(tmp_path / "s", VERSION, answer) as path, pytest.raises(LaunchRefused) as raised:
        Images(Engine(path)).find_wanted("train:1")
    assert raised.value.why == "authorization denied by plugin: not this registry"


def test_an_absent_image_and_an_engine_in_trouble_are_no_refusals(tmp_path: Path) -> None:
    with answering(tmp_path / "s", VERSION, ABSENT) as path:
        assert Images(Engine(path)).find_wanted("train:1") is None
    trouble = reply(b'{"message":"layer does not exist"}', "500 Internal Server Error")
    with answering(tmp_path / "t", VERSION, trouble) as path, pytest.raises(EngineError):
        Images(Engine(path)).find_wanted("train:1")


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("registry.test/train:1", "sha256:" + "1" * 64),
        ("Registry.test/train", "sha256:" + "1" * 64),
        ("registry.test/train@sha256:" + "2" * 64, "sha256:" + "2" * 64),
        ("python:3.11", "sha256:" + "3" * 64),
        ("docker.io/library/python", "sha256:" + "3" * 64),
        ("registry.test/other:1", None),
        ("train:1", None),
        ("sha256:" + "4" * 64, None),
        ("", None),
    ],
)
def test_the_digest_of_an_image_is_that_at_the_repository_which_was_asked_for(name: str, digest: str | None) -> None:
    told = (f"registry.test/train@sha256:{one * 64}" for one in "12")
    digests = ("<none>@<none>", *told, "python@sha256:" + "3" * 64)
    assert find_repository_digest(digests, name) == digest
