"""Workspaces that `sf` would never pack, uploaded straight to the API: refused before anything of them is started."""

import tarfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import pytest

from e2e.badinput.yard import SCRIPT, Fill, Yard, add, write_sound

pytestmark = pytest.mark.engine

STARTED: Final = b'echo started > "$FORGE_OUT_DIR/started"\n'


def escape(name: str) -> Fill:
    return lambda tar: add(tar, name, b"x")


def link(target: str, kind: bytes = tarfile.SYMTYPE, name: str = "evil") -> Fill:
    return lambda tar: add(tar, name, type=kind, linkname=target)


def device(kind: bytes) -> Fill:
    return lambda tar: add(tar, "evil", type=kind, devmajor=1, devminor=8)


def through_a_link(tar: tarfile.TarFile) -> None:
    add(tar, "evil", type=tarfile.SYMTYPE, linkname="/tmp")  # noqa: S108 - the container's own
    add(tar, "evil/written", b"x")


def through_a_chain_of_links(tar: tarfile.TarFile) -> None:
    add(tar, "deep/er/evil", type=tarfile.SYMTYPE, linkname="..")
    add(tar, "deep/evil2", type=tarfile.SYMTYPE, linkname="er/evil/../..")


def sparse(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("evil")
    member.size = 1
    member.pax_headers = {"GNU.sparse.map": f"0,1,{1 << 40},0", "GNU.sparse.size": str(1 << 40)}
    tar.fileobj.write(member.tobuf(tarfile.PAX_FORMAT) + b"x" + b"\0" * 511)


def below_a_broken_header(tar: tarfile.TarFile) -> None:
    tar.fileobj.write(b"\xff" * 512)
    add(tar, "never", b"x")


REFUSED: Final[dict[str, tuple[Fill, str]]] = {
    "an absolute name": (escape("/tmp/evil"), "/tmp/evil"),  # noqa: S108 - the container's own
    "a name with ..": (escape("a/../../evil"), "a/../../evil"),
    "a link to an absolute place": (link("/etc/passwd"), "evil"),
    "a link out of the tree": (link("../../capsule"), "evil"),
    "a file through a link": (through_a_link, "evil"),
    "links that leave together": (through_a_chain_of_links, "evil2"),
    "a link with an absolute name": (link("x", name="/tmp/evil"), "/tmp/evil"),  # noqa: S108 - the container's own
    "a hard link out of the tree": (link("/etc/passwd", tarfile.LNKTYPE), "evil"),
    "a hard link inside": (link(SCRIPT, tarfile.LNKTYPE), "evil"),
    "a character device": (device(tarfile.CHRTYPE), "evil"),
    "a block device": (device(tarfile.BLKTYPE), "evil"),
    "a pipe": (device(tarfile.FIFOTYPE), "evil"),
    "a sparse file": (sparse, "evil"),
    "a header that is damaged": (below_a_broken_header, "damaged at byte 1024"),
    "folders without end": (escape("d/" * 1500 + "evil"), "folders deep"),
    "a name without end": (escape("n" * 300), "nnn"),
    "a file in the place of a folder": (escape("experiments"), "experiments"),
}


@pytest.fixture(scope="module")
def refused(shared_yard: Yard) -> Iterator[Mapping[str, str]]:
    """The job of each archive that is to be refused."""

    def begin(fill: Fill) -> str:
        def write(tar: tarfile.TarFile) -> None:
            add(tar, SCRIPT, STARTED)
            fill(tar)

        return shared_yard.submit(shared_yard.upload(write))

    with shared_yard.batch({what: partial(begin, fill) for what, (fill, _) in REFUSED.items()}) as jobs:
        yield jobs


@pytest.mark.parametrize("what", list(REFUSED))
def test_an_archive_is_refused_by_the_name_of_its_member_and_nothing_of_it_starts(
    shared_yard: Yard, refused: Mapping[str, str], what: str
) -> None:
    job = refused[what]
    detail = shared_yard.probe.wait_end(job)
    assert detail["job"]["state"] == "FAILED"
    assert shared_yard.probe.reasons(job)[-1] == "start_failed"
    assert REFUSED[what][1] in detail["job"]["note"]
    assert not (shared_yard.out(job) / "started").exists()


def test_a_member_that_is_larger_than_the_archive_is_refused(yard: Yard) -> None:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, SCRIPT, STARTED)
        header = tarfile.TarInfo("huge")
        header.size = 1 << 50
        tar.fileobj.write(header.tobuf())

    job = yard.submit(yard.upload(write))
    detail = yard.probe.wait_end(job)
    assert (detail["job"]["state"], yard.probe.reasons(job)[-1]) == ("FAILED", "start_failed")
    assert "workspace" in detail["job"]["note"]
    assert not (yard.out(job) / "started").exists()


def test_a_blob_that_is_no_archive_at_all_is_refused(yard: Yard) -> None:
    def write(tar: tarfile.TarFile) -> None:
        tar.fileobj.write(b"no tar" * 4096)

    job = yard.submit(yard.upload(write))
    detail = yard.probe.wait_end(job)
    assert (detail["job"]["state"], yard.probe.reasons(job)[-1]) == ("FAILED", "start_failed")
    assert "workspace" in detail["job"]["note"]


def test_of_two_members_with_one_name_the_last_is_taken_as_every_tar_does(yard: Yard) -> None:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, SCRIPT, b"echo first\n")
        add(tar, SCRIPT, b"echo last\n")

    job = yard.submit(yard.upload(write))
    assert yard.probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "last\n"


def test_a_workspace_that_was_never_uploaded_is_refused_at_once(yard: Yard) -> None:
    answer = yard.send(yard.spec_with({"digest": "sha256:" + "0" * 64, "bytes": 1, "files": 1}))
    assert answer.status == 422
    assert "0" * 64 in answer.words


def test_set_user_id_bits_do_not_reach_the_work_folder(yard: Yard) -> None:
    def write(tar: tarfile.TarFile) -> None:
        add(tar, SCRIPT, b"stat -c %a ../../tool\n")
        add(tar, "tool", b"x", mode=0o6777)

    job = yard.submit(yard.upload(write))
    assert yard.probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "755\n"


def test_a_sound_archive_made_by_hand_runs(yard: Yard) -> None:
    job = yard.submit(yard.upload(write_sound))
    assert yard.probe.wait_end(job)["job"]["state"] == "SUCCEEDED"
