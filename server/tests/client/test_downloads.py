"""A file that is brought here where it cannot be written: told in words, and gone on with later."""

from pathlib import Path

import pytest

from server.tests.client.conftest import WEIGHTS
from starforge.client.user import Client
from starforge.errors import Unavailable


@pytest.mark.usefixtures("machine")
def test_a_place_that_cannot_be_written_is_named_and_the_file_comes_once_it_can(
    client: Client, project: Path, tmp_path: Path
) -> None:
    job = client.submit(project / "experiments" / "first", profiles=["cpu"])
    client.wait(job.id, timeout_s=30)
    in_the_way = tmp_path / "here" / "model.bin.sf-part"
    in_the_way.mkdir(parents=True)
    with pytest.raises(Unavailable, match=r"model\.bin could not be written") as refused:
        client.download(job.id, "model.bin", to=tmp_path / "here")
    assert (refused.value.why, "get it again" in refused.value.next_step) == ("Is a directory", True)
    in_the_way.rmdir()
    (brought,) = client.download(job.id, "model.bin", to=tmp_path / "here")
    assert brought.read_bytes() == WEIGHTS
