"""The client of the engine's API, against a socket that behaves badly."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from starforge.containers.engine import Engine, EngineError, choose_version
from starforge.errors import BackendUnreachable


@pytest.mark.parametrize(
    ("newest", "oldest", "chosen"),
    [("1.41", "1.12", "1.41"), ("1.45", "1.24", "1.41"), ("1.40", "1.12", "1.40"), ("1.52", "1.44", "1.44")],
)
def test_the_known_version_is_spoken_or_its_nearest(newest: str, oldest: str, chosen: str) -> None:
    assert choose_version(newest, oldest) == chosen


def test_an_engine_that_is_too_old_or_none_at_all_is_named() -> None:
    with pytest.raises(EngineError, match=r"speaks API 1\.30"):
        choose_version("1.30", "1.12")
    with pytest.raises(EngineError, match="no Docker engine"):
        choose_version("", "1.0")


@contextlib.contextmanager
def answering(path: Path, *answers: bytes) -> Iterator[str]:
    """A socket whose connections get one of `answers` each, in order; None is left open and silent."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=answer_each, args=(listener, answers))
        thread.start()
        try:
            yield str(path)
        finally:
            thread.join()


def answer_each(listener: socket.socket, answers: tuple[bytes, ...]) -> None:
    for answer in answers:
        client, _ = listener.accept()
        with client:
            client.recv(65536)
            client.sendall(answer)


def reply(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


VERSION = reply(b'{"ApiVersion": "1.41", "MinAPIVersion": "1.12"}')


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 ", b"nonsense\r\n\r\n", reply(b"{", length=100), reply(b"{")])
def test_an_answer_that_is_cut_or_makes_no_sense_is_unreachable(tmp_path: Path, answer: bytes) -> None:
    with answering(tmp_path / "s", VERSION, answer) as path, pytest.raises(BackendUnreachable):
        Engine(path).info()


def test_an_error_carries_the_engines_own_words(tmp_path: Path) -> None:
    answer = reply(b'{"message":"No such container: x"}\n', "404 Not Found")
    with answering(tmp_path / "s", VERSION, answer) as path, pytest.raises(EngineError) as caught:
        Engine(path).inspect("x")
    assert (caught.value.status, caught.value.message) == (404, "No such container: x")


def test_an_error_without_a_message_is_shown_as_it_came(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", VERSION, reply(b"<html>", "502 Bad Gateway")) as path,
        pytest.raises(EngineError) as caught,
    ):
        Engine(path).info()
    assert (caught.value.status, caught.value.message) == (502, "<html>")


def test_an_engine_that_was_exchanged_is_asked_anew_what_it_speaks(tmp_path: Path) -> None:
    said = b'{"message":"client version 1.41 is too old. Minimum supported API version is 1.44"}'
    newer = reply(b'{"ApiVersion": "1.52", "MinAPIVersion": "1.44"}')
    answers = (VERSION, reply(said, "400 Bad Request"), newer, reply(b"[]"))
    with answering(tmp_path / "s", *answers) as path:
        engine = Engine(path)
        with pytest.raises(BackendUnreachable, match=r"Minimum supported API version is 1\.44"):
            engine.list_containers()
        assert engine.list_containers() == []


def test_no_socket_is_unreachable_and_says_what_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(BackendUnreachable, match="look whether dockerd runs"):
        Engine(str(tmp_path / "nothing")).ping()
    assert Engine(str(tmp_path / "nothing")).find_listener() is None


def test_silence_is_unreachable_after_the_time_limit(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(BackendUnreachable, match="timed out"):
            Engine(str(tmp_path / "s"), read_timeout_s=0.1).ping()


def test_a_stream_that_is_cut_is_told_and_one_that_we_closed_just_ends(tmp_path: Path) -> None:
    chunk = b'16\r\n{"status":"Waiting"}\n\r\n'
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with answering(tmp_path / "s", VERSION, head + chunk) as path:
        stream = Engine(path).pull("r", "1", None, 5)
        with pytest.raises(BackendUnreachable, match="cut"):
            list(stream)
        stream.release()
    with answering(tmp_path / "t", VERSION, head + chunk) as path:
        stream = Engine(path).pull("r", "1", None, 5)
        lines = []
        for line in stream:
            lines.append(line)
            stream.close()
        stream.release()
    assert lines == [{"status": "Waiting"}]
