"""A job's files over the API: folders a page at a time, files whole or in part, nothing outside of the run."""

import contextlib
import io
import os
import socket
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from e2e.support.owned import MEMORY, owned_folder
from server.tests.retention.yard import Yard, open_yard
from server.tests.web.serving import serving
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import Reason
from starforge_console.ingest.spool import StrangeFile
from starforge_console.jobs.files import iterate_tar
from starforge_console.ledger.endings import note_finalised
from starforge_console.web.files import Downloads

NOBODY = 65534


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with open_yard(tmp_path) as made:
        yield made


@pytest.fixture
def made(yard: Yard) -> tuple[JobId, AttemptId]:
    return yard.end(steps=(10,))


def client(yard: Yard) -> TestClient:
    return yard.console.client(yard.headers)


def test_a_job_shows_its_folders_and_what_is_in_them(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    job, _ = made
    tops = client(yard).get(f"/api/v1/jobs/{job}/files").json()
    assert [(one["name"], one["kind"]) for one in tops["items"]] == [("checkpoints", "folder"), ("out", "folder")]
    out = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": "out"}).json()
    assert [(one["name"], one["bytes"]) for one in out["items"]] == [("model.bin", 7)]
    attempts = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": "checkpoints"}).json()
    assert [one["name"] for one in attempts["items"]] == ["1"]
    files = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": "checkpoints/1/step-10"}).json()
    assert [one["name"] for one in files["items"]] == ["model.bin", "starforge-checkpoint.json"]


def test_a_large_folder_comes_a_page_at_a_time_and_whole(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    job, _ = made
    for number in range(250):
        (yard.out(job) / f"shard-{number:04d}").touch()
    names, cursor = [], None
    while True:
        query: dict[str, str | int] = {"path": "out", "limit": 100}
        query |= {"cursor": cursor} if cursor else {}
        page = client(yard).get(f"/api/v1/jobs/{job}/files", params=query).json()
        names += [one["name"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == sorted(one.name for one in yard.out(job).iterdir())
    assert len(names) == 251


def test_a_file_comes_whole_and_is_never_shown(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    job, _ = made
    (yard.out(job) / "page.html").write_text("<script>alert(1)</script>")
    answer = client(yard).get(f"/api/v1/jobs/{job}/file?path=out/page.html")
    assert (answer.status_code, answer.text) == (200, "<script>alert(1)</script>")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["content-length"] == "25"


@pytest.mark.parametrize(
    ("asked", "status", "content", "told"),
    [
        ("bytes=2-4", 206, b"igh", "bytes 2-4/7"),
        ("bytes=5-", 206, b"ts", "bytes 5-6/7"),
        ("bytes=-3", 206, b"hts", "bytes 4-6/7"),
        ("bytes=0-99", 200, b"weights", None),
        ("bytes=7-", 416, b"", "bytes */7"),
        ("bytes=4-2", 200, b"weights", None),
        ("bytes=0-1,3-4", 200, b"weights", None),
        ("lines=1-2", 200, b"weights", None),
    ],
)
def test_a_part_of_a_file_can_be_asked_for(  # noqa: PLR0913, PLR0917 - one parameter a part of the answer
    yard: Yard, made: tuple[JobId, AttemptId], asked: str, status: int, content: bytes, told: str | None
) -> None:
    answer = client(yard).get(f"/api/v1/jobs/{made[0]}/file?path=out/model.bin", headers={"Range": asked})
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, content, told)


def test_a_download_goes_on_only_in_the_same_file(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    path = f"/api/v1/jobs/{made[0]}/file?path=out/model.bin"
    tag = client(yard).get(path).headers["etag"]
    part = {"Range": "bytes=3-", "If-Range": tag}
    assert client(yard).get(path, headers=part).status_code == 206
    (yard.out(made[0]) / "model.bin").write_bytes(b"others!")
    os.utime(yard.out(made[0]) / "model.bin", (1, 1))
    changed = client(yard).get(path, headers=part)
    assert (changed.status_code, changed.content) == (200, b"others!")


def test_the_head_of_a_file_says_how_large_it_is(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    answer = client(yard).head(f"/api/v1/jobs/{made[0]}/file?path=out/model.bin")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "7", b"")


def test_any_name_can_be_downloaded_under_its_name(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    name = 'a "b";\r\nSet-Cookie: x=1 ü文.bin'
    (yard.out(made[0]) / name).write_bytes(b"odd")
    listed = client(yard).get(f"/api/v1/jobs/{made[0]}/files", params={"path": "out"}).json()["items"]
    assert name in [one["name"] for one in listed]

    answer = client(yard).get(f"/api/v1/jobs/{made[0]}/file?path=out/{quote(name, safe='')}")
    assert answer.content == b"odd"
    assert "set-cookie" not in answer.headers
    assert quote(name, safe="") in answer.headers["content-disposition"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("out/../../../../etc/passwd", 422),
        ("../out/model.bin", 422),
        ("out//model.bin", 422),
        ("out/./model.bin", 422),
        ("out/model.bin\0", 422),
        ("out/absent", 404),
        ("attempts/1/spool/log.bin", 404),
        ("capsules/1/capsule.json", 404),
        ("checkpoints/1x/step-10", 404),
        ("checkpoints/9/step-10/model.bin", 404),
        ("out", 422),
        ("out/link", 422),
        ("out/way/passwd", 422),
        ("out/pipe", 422),
    ],
)
def test_nothing_outside_of_the_jobs_files_is_sent(
    yard: Yard, made: tuple[JobId, AttemptId], path: str, status: int
) -> None:
    out = yard.out(made[0])
    (out / "link").symlink_to("/etc/passwd")
    (out / "way").symlink_to("/etc")
    os.mkfifo(out / "pipe")
    answer = client(yard).get(f"/api/v1/jobs/{made[0]}/file", params={"path": path})
    assert (answer.status_code, "root:" in answer.text) == (status, False)


def test_a_link_is_named_as_one(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    (yard.out(made[0]) / "link").symlink_to("/etc/passwd")
    (yard.out(made[0]) / "\udcff").mkdir()
    page = client(yard).get(f"/api/v1/jobs/{made[0]}/files", params={"path": "out"}).json()
    assert (page["items"][0]["name"], page["items"][0]["kind"], page["items"][0]["bytes"]) == ("link", "link", None)
    assert page["unlisted"] == 1


def test_a_checkpoint_comes_as_one_tar(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    job, attempt = made
    folder = yard.layout(attempt).checkpoints / "step-10"
    (folder / "deep").mkdir()
    (folder / "deep" / "große-文.bin").write_bytes(b"x" * 1500)
    (folder / "inside").symlink_to("deep")
    (folder / "outside").symlink_to("../../../..")
    (folder / "absolute").symlink_to("/etc/passwd")
    answer = client(yard).get(f"/api/v1/jobs/{job}/archive?path=checkpoints/1/step-10")
    assert answer.headers["content-type"] == "application/x-tar"
    assert f'filename="{job}-checkpoints-1-step-10.tar"' in answer.headers["content-disposition"]
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        names = {member.name: member for member in tar.getmembers()}
        content = tar.extractfile("step-10/deep/große-文.bin")
        assert content is not None
        assert content.read() == b"x" * 1500
    assert sorted(names) == [
        "step-10",
        "step-10/deep",
        "step-10/deep/große-文.bin",
        "step-10/inside",
        "step-10/model.bin",
        "step-10/starforge-checkpoint.json",
    ]
    assert names["step-10/inside"].linkname == "deep"


def test_only_who_may_read_gets_a_file(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    for path in ("files", "file?path=out/model.bin", "archive?path=out"):
        assert yard.console.client().get(f"/api/v1/jobs/{made[0]}/{path}").status_code == 401


def test_the_digest_that_an_attempt_told_stands_beside_the_file(yard: Yard) -> None:
    job, attempt = yard.start()
    yard.finish(job, attempt, Reason.EXITED_ZERO)
    outputs = {"artifacts": [{"path": "model.bin", "bytes": 7, "sha256": "a" * 64}], "checkpoints": []}
    yard.console.ledger.write_now(lambda c: note_finalised(c, attempt, 1.0, outputs, 6))
    (entry,) = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": "out"}).json()["items"]
    assert entry["sha256"] == "a" * 64
    (yard.out(job) / "model.bin").write_bytes(b"grown bigger")
    (entry,) = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": "out"}).json()["items"]
    assert entry["sha256"] is None


def test_too_many_downloads_of_one_user_are_asked_to_wait(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    room = yard.console.app.state.downloads
    with room.hold("ada") as hold:
        hold.grow(8)
        answer = client(yard).get(f"/api/v1/jobs/{made[0]}/file?path=out/model.bin")
        assert answer.status_code == 429
        assert "retry-after" in answer.headers
    assert client(yard).get(f"/api/v1/jobs/{made[0]}/file?path=out/model.bin").status_code == 200


def test_a_reader_who_takes_nothing_gives_its_place_to_others(yard: Yard, made: tuple[JobId, AttemptId]) -> None:
    job, _ = made
    with (yard.out(job) / "large").open("wb") as large:
        large.truncate(1 << 30)
    yard.console.app.state.downloads = Downloads(1, 1, stalled_s=3.0)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving(yard.console))
        other = stack.enter_context(served.client(yard.headers))
        silent = stack.enter_context(socket.create_connection(("127.0.0.1", served.ports.api_port)))
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"GET /api/v1/jobs/{job}/file?path=out/large HTTP/1.1\r\nHost: x\r\n"
        silent.sendall(f"{head}Authorization: {yard.headers['Authorization']}\r\n\r\n".encode())
        assert silent.recv(12) == b"HTTP/1.1 200"
        wanted = f"/api/v1/jobs/{job}/file?path=out/model.bin"
        assert other.get(wanted).status_code == 429
        deadline = time.monotonic() + 20
        while (answer := other.get(wanted)).status_code == 429 and time.monotonic() < deadline:
            assert answer.headers["retry-after"]
        assert (answer.status_code, len(answer.content)) == (200, 7)


@pytest.mark.parametrize("at", [2**60, -(2**60)])
def test_a_file_of_a_time_that_no_calendar_has_is_listed_and_sent_without_one(at: int) -> None:
    with owned_folder(MEMORY) as folder, open_yard(folder) as yard:  # other file systems keep no such time
        job, _ = yard.end(steps=(10,))
        os.utime(yard.out(job) / "model.bin", (at, at))
        (listed,) = client(yard).get(f"/api/v1/jobs/{job}/files", params={"path": "out"}).json()["items"]
        assert (listed["name"], listed["modified_at"]) == ("model.bin", None)
        sent = client(yard).get(f"/api/v1/jobs/{job}/file", params={"path": "out/model.bin"})
        assert (sent.status_code, len(sent.content), "last-modified" in sent.headers) == (200, 7, False)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_read_makes_no_tar_without_it(tmp_path: Path) -> None:
    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(name)
    tmp_path.chmod(0o755)
    (tmp_path / "shut").chmod(0)
    tree = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with as_nobody(), pytest.raises(StrangeFile, match="Permission denied"):
            list(iterate_tar(tree, "top"))
        (tmp_path / "shut").chmod(0o755)
        with tarfile.open(fileobj=io.BytesIO(b"".join(iterate_tar(tree, "top")))) as whole:
            assert {"top/open/weights", "top/shut/weights"} <= set(whole.getnames())
    finally:
        os.close(tree)


@pytest.mark.parametrize("name", ["link", "pipe"])
def test_what_is_no_plain_file_is_refused_without_telling_where_the_storage_lies(
    yard: Yard, made: tuple[JobId, AttemptId], name: str
) -> None:
    job, _ = made
    (yard.out(job) / "link").symlink_to("/etc/passwd")
    os.mkfifo(yard.out(job) / "pipe")
    for route, path in (("file", f"out/{name}"), ("archive", f"out/{name}"), ("files", f"out/{name}/x")):
        refused = client(yard).get(f"/api/v1/jobs/{job}/{route}", params={"path": path})
        assert refused.status_code == 422, refused.text
        assert f"'{path}' of job {job} is not read" in refused.json()["title"]
        assert str(yard.out(job).parent) not in refused.text
