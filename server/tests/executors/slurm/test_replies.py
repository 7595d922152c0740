"""What replies of several versions mean: states, refusals, and everything that is no answer."""

import pytest

from server.tests.executors.slurm.replies import complaint, exit_code, job, jobs, number, refused
from starforge.contract.observation import EndCause, Exit, NoSignal, Observation, Phase, Seen
from starforge.contract.states import DesiredState, Reason
from starforge.errors import LaunchRefused, NoCapacity, StarForgeError
from starforge_console.domain.exit_reason import ExitEvidence, explain_exit
from starforge_console.executors.slurm.decode.family import Unreadable, read_list, read_submitted
from starforge_console.executors.slurm.decode.plain import Plain
from starforge_console.executors.slurm.decode.structured import Structured
from starforge_console.executors.slurm.refusals import explain_refusal
from starforge_console.executors.slurm.replies import JobUnknown, SlurmSilent, TokenRefused, VersionGone, check_reply
from starforge_console.executors.slurm.states import StartMark, observe_job

AT = 1_000.0
BEGAN = StartMark(job_id=649719, restarts=0)


def see(*documents: dict[str, object], mark: StartMark | None = BEGAN) -> Observation:
    return observe_job([Structured().read_job(document) for document in documents], mark, AT)


def see_exit(*documents: dict[str, object]) -> Exit:
    seen = see(*documents)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.EXITED
    assert seen.exit is not None
    return seen.exit


def explain(found: Exit) -> Reason:
    evidence = ExitEvidence(engine=found, record=None, desired=DesiredState.RUN, stop_sent=False)
    return explain_exit(evidence).reason


@pytest.mark.parametrize(
    ("code", "error", "kind", "words"),
    [
        (2045, "Invalid account or account/partition combination specified", LaunchRefused, "account"),
        (2066, "Invalid qos specification", LaunchRefused, "QOS"),
        (2014, "Requested node configuration is not available", LaunchRefused, "no node .* can ever"),
        (2070, "Required partition not available (inactive or drain)", NoCapacity, "drained"),
        (1804, "Rate limit exceeded, please retry momentarily", NoCapacity, "limits how often"),
        (2999, "Something that no table knows", LaunchRefused, "Something"),
    ],
)
def test_a_submission_that_the_controller_refuses_left_nothing(
    code: int, error: str, kind: type[StarForgeError], words: str
) -> None:
    submitted = read_submitted(refused(code, error))
    assert submitted.job_id is None
    with pytest.raises(kind, match=words):
        raise explain_refusal(submitted.complaints)


@pytest.mark.parametrize("code", [-1, 1001, 1800])
def test_a_submission_that_may_not_have_reached_the_controller_is_not_known(code: int) -> None:
    with pytest.raises(SlurmSilent):
        raise explain_refusal(read_submitted(refused(code, "Unable to contact slurm controller")).complaints)


def test_an_empty_list_beside_an_error_is_no_answer() -> None:
    with pytest.raises(SlurmSilent):
        check_reply(500, "", jobs(errors=[complaint(-1, "Unspecified error", "Unable to query jobs")]))


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (511, jobs(errors=[complaint(1007, "Protocol authentication error")])),
        (500, jobs(errors=[complaint(1007, "Protocol authentication error")])),
        (401, "Authentication failure\n"),
        (500, "Authentication failure\n"),
    ],
)
def test_a_token_that_is_refused_is_told_from_other_faults(status: int, document: object) -> None:
    with pytest.raises(TokenRefused, match="refuses the console's token"):
        check_reply(status, "text/plain", document)


@pytest.mark.parametrize("number", [-1, 0])
def test_an_error_without_a_name_is_told_with_what_it_most_often_is(number: int) -> None:
    with pytest.raises(SlurmSilent, match="does not take the console's token") as found:
        check_reply(500, "", jobs(errors=[complaint(number, "Unspecified error", "Failure to query jobs")]))
    assert "scontrol ping" in found.value.next_step


@pytest.mark.parametrize("status", [404, 500])
def test_a_job_that_is_unknown_is_an_answer_whatever_the_status_is(status: int) -> None:
    with pytest.raises(JobUnknown):
        check_reply(status, "", jobs(errors=[complaint(2017, "Invalid job id specified")]))


def test_an_unknown_node_is_an_error_though_its_number_is_none() -> None:
    with pytest.raises(SlurmSilent, match="No error"):
        check_reply(200, "", {"errors": [complaint(0, "No error", "Failure to query node n")], "warnings": []})


def test_a_version_that_is_gone_is_not_taken_for_a_job_that_is_gone() -> None:
    with pytest.raises(VersionGone):
        check_reply(404, "text/plain", "Unable find requested URL. Please view /openapi/v3 for API reference.\n")


@pytest.mark.parametrize("errors", ["Something broke", ["Something broke"], {"error": "Something broke"}])
def test_errors_in_a_form_of_their_own_are_errors(errors: object) -> None:
    with pytest.raises(SlurmSilent, match="Something broke"):
        check_reply(200, "", {"jobs": [], "errors": errors})


def test_words_that_are_told_in_a_form_of_their_own_are_read_as_words_or_as_none() -> None:
    node = {"name": "n1", "state": "idle", "state_flags": "DRAIN", "partitions": "gpu"}
    assert Plain().read_node(node).states == ("IDLE", "DRAIN")
    assert Plain().read_node(node).partitions == ("gpu",)
    assert Structured().read_node({**node, "partitions": None}).partitions == ()


def test_a_list_that_is_missing_is_not_an_empty_one() -> None:
    with pytest.raises(Unreadable):
        read_list({"errors": []}, "jobs")


def test_a_code_of_its_own_is_told() -> None:
    found = see_exit(job("FAILED", state_reason="NonZeroExitCode", exit_code=exit_code(1)))
    assert (found.code, explain(found)) == (1, Reason.EXITED_NONZERO)


def test_a_number_that_is_not_set_is_no_zero() -> None:
    found = see_exit(job("TIMEOUT", state_reason="TimeLimit", exit_code=exit_code(None, 15)))
    assert (found.code, found.cause, explain(found)) == (143, EndCause.TIME_LIMIT, Reason.MAX_RUNTIME)


def test_an_accounted_timeout_is_no_success_though_its_code_is_zero() -> None:
    entry = {
        "job_id": 5737,
        "state": {"current": ["TIMEOUT"], "reason": "None"},
        "exit_code": exit_code(0),
        "nodes": "cn1",
        "time": {"elapsed": 82, "start": 1762942457, "end": 1762942539, "limit": number(1)},
    }
    found = see_exit(entry)
    assert found.code == 143
    assert found.finished_at == 1762942539
    assert explain(found) is Reason.MAX_RUNTIME


def test_a_child_that_was_killed_for_memory_is_no_success_though_its_job_exits_with_zero() -> None:
    found = see_exit(job("OUT_OF_MEMORY", state_reason="OutOfMemory", exit_code=exit_code(0, 125)))
    assert found.out_of_memory
    assert explain(found) is Reason.OUT_OF_MEMORY


def test_a_failed_node_is_the_infrastructures_fault_though_its_code_is_zero() -> None:
    found = see_exit(job("NODE_FAIL", state_reason="NodeDown", failed_node="cn001"))
    assert (found.code, explain(found)) == (None, Reason.INTERRUPTED)
    assert "node cn001" in found.error


def test_a_preempted_job_is_told_as_such() -> None:
    assert explain(see_exit(job("PREEMPTED"))) is Reason.PREEMPTED


REQUEUED = job("PENDING", "REQUEUED", state_reason="BeginTime", restart_cnt=1, nodes="")


def test_a_job_that_ended_well_had_begun_though_its_mark_is_gone() -> None:
    seen = see(job("COMPLETED"), mark=None)
    assert isinstance(seen, Seen)
    assert seen.failure is None
    assert seen.exit is not None
    assert seen.exit.code == 0


def test_a_job_that_was_queued_again_before_it_began_still_waits() -> None:
    seen = see(REQUEUED, mark=None)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.PREPARING
    assert seen.note == "Slurm queued it again by itself"


def test_a_job_that_was_queued_again_after_it_began_has_ended() -> None:
    found = see_exit(REQUEUED)
    assert (found.code, explain(found)) == (None, Reason.INTERRUPTED)


def test_a_job_that_still_holds_its_nodes_has_not_ended() -> None:
    seen = see(job("FAILED", "COMPLETING", exit_code=exit_code(2)))
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.RUNNING


def test_the_component_that_explains_the_end_is_told_and_not_the_leader() -> None:
    leader = job("CANCELLED", job_id=700, het_job_id=number(700), exit_code=exit_code(None, 9))
    other = job(
        "NODE_FAIL",
        job_id=701,
        het_job_id=number(700),
        het_job_offset=number(1),
        failed_node="cn017",
        state_reason="NodeDown",
    )
    found = see_exit(leader, other)
    assert found.cause is EndCause.NODE_FAILED
    assert "cn017" in found.error


def test_a_state_that_nobody_knows_is_shown_and_changes_nothing() -> None:
    seen = see(job("TELEPORTED"))
    assert isinstance(seen, NoSignal)
    assert "TELEPORTED" in seen.reason


def test_an_older_version_tells_the_same_in_plain_values() -> None:
    entry = {
        "job_id": 12,
        "name": "n",
        "user_name": "ada",
        "comment": "c",
        "job_state": "FAILED",
        "state_reason": "NonZeroExitCode",
        "exit_code": 7 << 8,
        "restart_cnt": 0,
        "nodes": "n[1-2]",
        "cpus": 8,
        "node_count": 2,
        "memory_per_node": 500,
        "time_limit": 5,
        "het_job_id": 0,
    }
    read = Plain().read_job(entry)
    assert (read.exit_code, read.nodes, read.memory_mb, read.time_limit_s) == (7, ("n1", "n2"), 1000, 300.0)
    assert Plain().read_job({**entry, "exit_code": 9}).exit_code == 137
    with pytest.raises(Unreadable):
        Plain().read_job({**entry, "job_state": ["FAILED"]})
