import asyncio

import httpx2
import pytest
from backports.zstd import compress

from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.containers.storage import MARK_FILE
from starforge.contract.canonical import digest_bytes
from starforge_console.blobs.places import locate_blob
from starforge_console.web.blobs import UPLOADS_OF_ONE_USER

CONTENT = b"tar " * 50_000


def test_a_workspace_is_uploaded_compressed_and_kept_plain(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"
    assert client.get(path).json()["present"] is False
    answer = client.put(path, content=compress(CONTENT), headers={"Content-Encoding": "zstd"})
    kept = {"digest": digest_bytes(CONTENT), "present": True, "bytes": len(CONTENT), "received": 0}
    assert answer.json() == kept
    assert client.get(path).json()["bytes"] == len(CONTENT)
    assert locate_blob(console.services.settings.storage_root, digest_bytes(CONTENT)).read_bytes() == CONTENT


def test_an_upload_larger_than_any_json_is_streamed(console: ConsoleUnderTest) -> None:
    content = bytes(3 << 20)
    client = console.client(console.add_user("ann"))
    answer = client.put(f"/api/v1/blobs/{digest_bytes(content)}", content=content)
    assert answer.json()["bytes"] == len(content)


@pytest.mark.parametrize(
    ("sent", "encoding", "status", "code"),
    [
        (b"forged", "identity", 422, "blob_refused"),
        (b"no zstd", "zstd", 422, "blob_refused"),
        (CONTENT, "br", 415, "encoding_refused"),
    ],
)
def test_what_is_not_the_digest_is_refused(
    console: ConsoleUnderTest, sent: bytes, encoding: str, status: int, code: str
) -> None:
    client = console.client(console.add_user("ann"))
    path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"
    answer = client.put(path, content=sent, headers={"Content-Encoding": encoding})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert client.get(path).json()["present"] is False


def test_an_upload_needs_a_token_that_may_submit(console: ConsoleUnderTest) -> None:
    path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"
    assert console.client().put(path, content=CONTENT).status_code == 401
    assert console.client(console.add_user("ann", scopes=["read"])).put(path, content=CONTENT).status_code == 403


def test_uploads_of_one_digest_at_once_all_succeed(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")

    async def put_all() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(console.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://console", headers=headers) as client:
            path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"
            return list(await asyncio.gather(*(client.put(path, content=CONTENT) for _ in range(UPLOADS_OF_ONE_USER))))

    assert {answer.status_code for answer in asyncio.run(put_all())} == {200}


def test_an_unmounted_storage_takes_no_blob_and_admits_no_job(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    console.keep_workspace()
    (console.root / "storage" / MARK_FILE).unlink()
    path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"
    answers = [
        client.get(path),
        client.put(path, content=CONTENT),
        client.post("/api/v1/jobs", json=build_submission()),
    ]
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert {answer.json()["code"] for answer in answers} == {"storage_not_mounted"}
    assert "storage not mounted" in answers[0].json()["title"]


def test_an_upload_that_begins_where_nothing_is_here_is_refused(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    path = f"/api/v1/blobs/{digest_bytes(CONTENT)}"
    answer = client.put(path, content=CONTENT[100:], headers={"Upload-Offset": "100"})
    assert (answer.status_code, answer.json()["code"]) == (409, "upload_offset")
    assert client.put(path, content=CONTENT, headers={"Upload-Offset": "-1"}).status_code == 422
    assert client.put(path, content=CONTENT, headers={"Upload-Offset": "0"}).json()["present"] is True
