import copy
import pickle

import pytest

from starforge.contract.ids import JobId, new_attempt_id
from starforge.contract.observation import Phase, Seen
from starforge.contract.wire import decode_observations, encode_observations
from starforge.errors import LaunchRefused
from starforge.said.catalog import LISTS, MESSAGES
from starforge.said.sentence import Said, code_of, find_fixed, find_said, names_in, read_said, say, say_list, write_said


def test_a_sentence_is_its_english_text_to_whoever_knows_nothing_of_codes() -> None:
    said = say("exit.code", code=3)
    assert said == "exit code 3"
    assert f"it ended: {said}" == "it ended: exit code 3"
    assert hash(said) == hash("exit code 3")
    assert (said.code, said.values) == ("exit.code", {"code": 3})


def test_a_sentence_within_another_keeps_its_code() -> None:
    inner = say("host.no_answer", s="3")
    outer = say("note.waiting", node="n1", why=inner)
    assert outer == "waiting for n1: no answer within 3 s"
    assert code_of(str(outer.values["why"])) is None
    assert outer.values["why"] is inner


def test_what_the_ledger_keeps_of_a_sentence_makes_it_again() -> None:
    parts = [say("room.taken_by", n=2, holder=say("room.held_here")), "another's words"]
    said = say("room.taken", reasons=say_list("list.comma", parts))
    again = read_said(str(said), write_said(said))
    assert isinstance(again, Said)
    assert again == said == " (2 held by jobs of this console, another's words)"
    assert write_said(again) == write_said(said)


def test_a_code_of_the_pages_alone_is_kept_with_its_text() -> None:
    cause = Said("the GPU ran out of memory", "diagnosis.gpu_oom", {"wanted": "2 GiB"})
    said = say("exit.diagnosed", note=say("exit.code", code=1), cause=cause)
    again = read_said(str(said), write_said(said))
    assert isinstance(again, Said)
    kept = again.values["cause"]
    assert isinstance(kept, Said)
    assert (kept, kept.code, kept.values) == (cause, cause.code, cause.values)


@pytest.mark.parametrize(
    "kept",
    [
        None,
        "",
        "no JSON",
        "[]",
        '{"code": "exit.of_a_later_version", "values": {}}',
        '{"code": "exit.code", "values": {"number": 1}}',
        '{"code": "exit.code", "values": []}',
        '{"code": "exit.code"}',
    ],
)
def test_what_this_version_cannot_say_is_told_as_it_stands(kept: str | None) -> None:
    assert code_of(read_said("exit code 1", kept)) is None
    assert read_said("exit code 1", kept) == "exit code 1"


def test_words_of_people_and_engines_have_no_code() -> None:
    assert write_said("stopped, for I was wrong") is None
    assert code_of("stopped, for I was wrong") is None


def test_a_fixed_sentence_is_known_again_when_it_comes_as_text() -> None:
    assert code_of(find_fixed("waiting to start")) == "note.to_start"
    assert code_of(find_fixed("something else")) is None


def test_a_copy_is_the_same_sentence() -> None:
    said = say("exit.code", code=3)
    for again in (copy.deepcopy(said), pickle.loads(pickle.dumps(said))):  # noqa: S301 - our own bytes
        assert (again, again.code, again.values) == (said, said.code, said.values)


def test_a_sentence_crosses_the_wire_as_its_text() -> None:
    attempt = new_attempt_id(JobId("j-abcdefghjk"), 1)
    seen = Seen(phase=Phase.PREPARING, at=1.0, node="n1", note=say("note.starting"))
    assert decode_observations(encode_observations({attempt: seen})) == {attempt: seen}


def test_an_error_is_said_with_the_codes_of_its_parts() -> None:
    error = LaunchRefused(say("attempt.fenced", attempt="a1"), why=say("attempt.fenced_why"), next_step="ask Ann")
    said = read_said(str(error), write_said(error.said))
    assert said == error.said == str(error) == "a1 was fenced. it must not start any more. ask Ann"
    assert code_of(said) == "list.sentences"
    assert code_of(LaunchRefused(say("attempt.fenced_why")).said) == "attempt.fenced_why"
    assert code_of(LaunchRefused("in words of an engine", why="alone").said) is None


def test_a_sentence_that_was_kept_as_its_text_alone_is_read_with_its_values() -> None:
    said = find_said("restored from the backup of 2026-11-30 08:00 UTC", "restored.from")
    assert (code_of(said), said.values if isinstance(said, Said) else {}) == (
        "restored.from",
        {"when": "2026-11-30 08:00 UTC"},
    )
    assert code_of(find_said("new disks", "restored.from")) is None


@pytest.mark.parametrize("values", [{}, {"number": 1}])
def test_a_sentence_without_its_values_is_a_mistake_of_whoever_says_it(values: dict[str, int]) -> None:
    with pytest.raises(KeyError):
        say("exit.code", **values)


def test_every_code_has_one_english_text() -> None:
    assert not MESSAGES.keys() & LISTS.keys()
    assert all(names_in(text) or text == text.format() for text in MESSAGES.values())
