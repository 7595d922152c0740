import pytest

from core.tests.diagnosis.builders import STEPS, UNKNOWN_ERROR, load_whole_logs
from starforge.diagnosis.answer import Category, Confidence, Diagnosis, Ending, KnownExit
from starforge.diagnosis.diagnose import diagnose

TRACE = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in step\n    run()\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
WATCHDOG = (
    "[rank{rank}]:[E813 06:02:11.1 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600052 milliseconds."
)
LAUNCHER = (
    TRACE + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"
    "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 700)\n"
)


def _of_rank(text: str, rank: int) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.rstrip("\n").split("\n"))


def _diagnose(log: str, code: int | None = 1) -> Diagnosis:
    return diagnose(log.encode(), KnownExit(code=code))


def test_the_first_rank_to_fail_wins_over_watchdogs_of_the_others() -> None:
    log = (
        _of_rank(TRACE + OOM, 5) + "\n".join(WATCHDOG.format(rank=rank, seq=99) for rank in range(4)) + "\n" + LAUNCHER
    )
    found = _diagnose(log)
    assert (found.kind, found.rank) == ("cuda_oom", 5)


def test_a_watchdog_that_speaks_first_still_is_a_consequence() -> None:
    log = WATCHDOG.format(rank=0, seq=7) + "\n" + _of_rank(TRACE + OOM, 3) + LAUNCHER
    assert _diagnose(log).kind == "cuda_oom"


def test_a_launchers_summary_is_no_cause() -> None:
    found = _diagnose(STEPS + LAUNCHER)
    assert found.category is Category.UNKNOWN
    assert found.spot is None


def test_the_last_error_of_one_process_wins_over_one_that_it_caught() -> None:
    caught = "flash attention is not here\n" + TRACE + "ModuleNotFoundError: No module named 'flash_attn'\nusing sdpa\n"
    assert _diagnose(caught + TRACE + OOM).kind == "cuda_oom"


def test_an_error_that_no_rule_knows_leaves_the_cause_open_and_is_shown() -> None:
    found = _diagnose(TRACE + OOM + "\nfalling back to half the batch\n" + UNKNOWN_ERROR)
    assert found.category is Category.UNKNOWN
    assert found.confidence is Confidence.UNKNOWN
    assert found.spot is not None
    assert found.spot.text == "KeyError: 'my own key'"


def test_ranks_that_share_a_stream_and_fail_back_to_back_are_seen_as_such() -> None:
    found = _diagnose(TRACE + OOM + "\n" + UNKNOWN_ERROR)
    assert (found.kind, found.confidence) == ("cuda_oom", Confidence.LIKELY)


def test_the_first_of_a_chain_of_errors_is_the_cause() -> None:
    chain = (
        TRACE + "socket.gaierror: [Errno -3] Temporary failure in name resolution\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        + TRACE + "huggingface_hub.errors.LocalEntryNotFoundError: cannot find it\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        + TRACE + "OSError: We couldn't connect to 'https://huggingface.co' to load the files\n"
    )  # fmt: skip
    found = _diagnose(chain)
    assert (found.kind, found.spot.number if found.spot else 0) == ("name_resolution", 4)


def test_a_worker_of_ray_that_tells_why_wins_over_the_drivers_boilerplate() -> None:
    worker = "".join(f"\x1b[36m(WorkerDict pid=16424)\x1b[0m {line}\n" for line in (TRACE + OOM).split("\n"))
    driver = (
        TRACE
        + "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        + ("There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer.")
    )
    assert _diagnose(worker + driver).kind == "cuda_oom"
    assert _diagnose(driver).kind == "ray_actor_died"


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank3]: ",
        "[default0]: ",
        "[1,3]<stderr>: ",
        "(TaskRunner pid=15001) ",
        "(WorkerDict pid=16424, ip=10.0.0.3) ",
        "(EngineCore_DP0 pid=6880) ERROR 11-15 09:07:15 [core.py:708] ",
        "(VllmWorker TP1 pid=321) ERROR 08-13 06:02:11 [multiproc_executor.py:596] ",
        "2025-08-13T06:02:11.204000123Z ",
        "2025-08-13T06:02:11.204000123Z stderr F [rank1]: ",
        "[pod/job-1-0/train] ",
        "3: ",
        "\x1b[31m",
    ],
)
def test_what_launchers_put_before_a_line_changes_nothing(prefix: str) -> None:
    log = "".join(f"{prefix}{line}\n" for line in (STEPS + TRACE + OOM).split("\n"))
    found = _diagnose(log)
    assert (found.kind, found.spot.number if found.spot else 0) == ("cuda_oom", 9)


def test_an_error_that_is_glued_to_a_progress_bar_is_seen() -> None:
    bar = " 42%|####      | 400/1000 [2:00:11<3:10:22, 18.9s/it]"
    found = _diagnose(f'{bar}\r{bar}Traceback (most recent call last):\n  File "a.py", line 1\n{OOM}\n')
    assert found.kind == "cuda_oom"


def test_bars_of_a_training_that_goes_on_are_progress_and_those_of_a_download_are_none() -> None:
    def bars(what: str) -> str:
        return "".join(f"{what} {at}%|##  | {at}/100 [00:11<00:10,  2.89it/s]\n" for at in range(50, 60))

    assert _diagnose(TRACE + OOM + "\n" + bars("") + "Killing\n").category is Category.UNKNOWN
    assert _diagnose(TRACE + OOM + "\n" + bars("Loading checkpoint shards:")).kind == "cuda_oom"


def test_a_loss_that_stays_no_number_is_told_also_of_a_success() -> None:
    broken = "".join(f"{{'loss': 'nan', 'grad_norm': 'nan', 'epoch': '0.{step}'}}\n" for step in range(6, 9))
    for code, confidence in [(0, Confidence.SURE), (None, Confidence.LIKELY)]:
        found = _diagnose(STEPS + broken, code)
        assert (found.category, found.confidence) == (Category.NAN_LOSS, confidence)
        assert found.spot is not None
        assert found.spot.number == 6


@pytest.mark.parametrize(
    "log",
    [
        STEPS.replace("1.2", "nan"),  # a gradient alone, while the loss is a number
        "{'loss': nan, 'epoch': 0.1}\n" * 3 + STEPS,  # it came back
        "config = {'loss_fn': 'nan_safe', 'loss': None}\nloss: nan is replaced\n" * 5,
        "eval_loss nan\n" * 5,
        "{'eval_loss': nan, 'eval_runtime': 3.2}\n" * 5,
    ],
)
def test_a_loss_that_is_a_number_is_not_called_broken(log: str) -> None:
    assert _diagnose(log, 0).category is Category.UNKNOWN


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("step:{n} - actor/pg_loss:nan - actor/grad_norm:nan - critic/score:0.1", "verl"),
        (" iteration {n}/ 1000 | consumed samples: 8 | lm loss: NAN | loss scale: 1.0 |", "Megatron"),
        ("iter {n}: loss nan, time 12.3ms", "nanoGPT"),
        ('{{"loss": NaN, "step": {n}}}', "JSON lines"),
    ],
)
def test_a_broken_loss_is_seen_in_what_frameworks_print(line: str, what: str) -> None:
    log = "".join(line.format(n=n) + "\n" for n in range(1, 6))
    assert _diagnose(log, 0).category is Category.NAN_LOSS, what


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        (KnownExit(code=137), "killed_by_someone"),
        (KnownExit(code=137, kernel_killed=True), "memory_limit_reached"),
        (KnownExit(code=137, kernel_killed=False), "killed_by_someone"),
        (KnownExit(code=139), "crashed_by_exit"),
        (KnownExit(code=143), "terminated_by_someone"),
        (KnownExit(code=1), "unknown"),
        (KnownExit(code=1, ending=Ending.STOPPED), "stopped_by_us"),
        (KnownExit(code=1, ending=Ending.TIME_LIMIT), "time_limit_reached"),
        (KnownExit(code=1, ending=Ending.GPU_LOST), "gpu_lost"),
        (KnownExit(code=0, ending=Ending.INTERRUPTED), "ended_by_machine"),
        (KnownExit(code=0), "succeeded"),
        (KnownExit(code=137, ending=Ending.OUT_OF_MEMORY), "memory_limit_reached"),
    ],
)
def test_where_the_log_says_nothing_the_exit_tells_what_it_can(known: KnownExit, kind: str) -> None:
    assert diagnose(STEPS.encode(), known).kind == kind


def test_our_own_stop_is_no_failure_whatever_the_log_says() -> None:
    assert diagnose((TRACE + OOM).encode(), KnownExit(code=1, ending=Ending.STOPPED)).category is Category.STOPPED


def test_a_killed_worker_is_not_called_memory_where_the_kernel_counted_no_kill() -> None:
    log = "E0813 06:19:49.809000 1210 api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 161617) of binary: python\n"
    assert diagnose(log.encode(), KnownExit(code=1)).category is Category.HOST_OOM
    assert diagnose(log.encode(), KnownExit(code=1, kernel_killed=False)).category is not Category.HOST_OOM


def test_a_line_that_a_terminal_broke_is_read_as_one() -> None:
    log = "\n".join(
        [
            "x" * 100,
            "y" * 100,
            "RuntimeError: FlashAttention on this machine is not to be had, as it on".ljust(98, ".") + " o",
            "nly supports Ampere GPUs or newer.",
        ]
    )
    assert _diagnose(log).kind == "gpu_unsupported"


def test_a_traceback_in_the_launchers_report_is_read() -> None:
    report = (
        LAUNCHER.replace("exitcode  : 1 (pid: 700)\n", "exitcode  : 1 (pid: 700)\n  error_file: /tmp/x/error.json\n")
        + '  traceback : Traceback (most recent call last):\n    File "train.py", line 3, in main\n      step()\n'
        + f"  {OOM}\n  \n============================================================\n"
    )
    found = _diagnose(STEPS + report)
    assert (found.kind, found.spot.text if found.spot else "") == ("cuda_oom", OOM)


def test_an_abort_of_a_communicator_is_a_consequence_also_without_a_prefix() -> None:
    aborted = TRACE + "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.\n"
    assert _diagnose(TRACE + OOM + "\nsaving nothing\n" + aborted).kind == "cuda_oom"


@pytest.mark.parametrize(
    ("category", "code", "log"),
    [entry[1:] for entry in load_whole_logs()],
    ids=[entry[0] for entry in load_whole_logs()],
)
def test_a_whole_log_is_told_as_it_is_meant(category: str, code: int, log: bytes) -> None:
    assert diagnose(log, KnownExit(code=code)).category == category


PEER_GONE = (
    TRACE + "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or "
    "there was a network error\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
)


def test_what_one_process_sees_of_another_is_no_cause_where_that_one_told_an_error_first() -> None:
    found = _diagnose(STEPS + _of_rank(UNKNOWN_ERROR, 2) + _of_rank(PEER_GONE, 0) + _of_rank(PEER_GONE, 1) + LAUNCHER)
    assert found.category is Category.UNKNOWN
    assert found.spot is not None
    assert found.spot.text == "KeyError: 'my own key'"
    assert found.rank == 2


def test_an_error_that_follows_the_loss_of_a_peer_leaves_that_the_answer() -> None:
    found = _diagnose(STEPS + _of_rank(PEER_GONE, 0) + _of_rank(UNKNOWN_ERROR, 2) + LAUNCHER)
    assert (found.kind, found.confidence) == ("nccl_remote", Confidence.LOW)


def test_an_error_before_the_loss_of_a_peer_counts_also_where_ranks_share_a_stream() -> None:
    found = _diagnose(STEPS + UNKNOWN_ERROR + PEER_GONE + LAUNCHER)
    assert found.category is Category.UNKNOWN
    assert found.spot is not None
    assert found.spot.text == "KeyError: 'my own key'"


def test_numbers_of_a_line_that_a_terminal_broke_are_read() -> None:
    text = (
        "ValueError: To serve at least one request with the model's max seq len (100000), (4.26 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (4.25 GiB). Based on the available memory, the "
        "estimated maximum model length is 99840."
    )
    width = 114
    log = TRACE + "x" * width + "\n" + "\n".join(text[at : at + width] for at in range(0, len(text), width)) + "\n"
    found = _diagnose(log)
    assert (found.kind, dict(found.facts)) == ("vllm_kv_estimate", {"asked": "100000", "fits": "99840"})


def test_a_process_that_was_ended_because_another_failed_does_not_tell_why() -> None:
    ended = _of_rank(TRACE + "KeyboardInterrupt", 1)
    assert _diagnose(STEPS + _of_rank(UNKNOWN_ERROR, 0) + ended).category is Category.UNKNOWN
    assert _diagnose(STEPS + ended).kind == "terminated"


def test_ranks_that_tear_one_anothers_lines_apart_below_labels_are_told_apart() -> None:
    log = (
        "11: [rank11]:[E617 15:17:35.5 ProcessGroupNCCL.cpp:681] [Rank 11] Some NCCL operations have failed.\n"
        "3: [rank3]: Traceback (most recent call last):\n"
        "11: [rank11]:[E617 15:17:35.5 ProcessGroupNCCL.cpp:695] [Rank 11] To avoid data inconsistency.\n"
        '3: [rank3]:   File "train.py", line 10, in <module>\n'
        "7: [rank7]: Trace[rank5]: Traceback (most recent call last):\n"
        "back (most recent call last):\n"
        "3: [rank3]: ValueError: bad sample 77\n"
        '[rank7]:   File "train.py", line 9[rank5]:   File "train.py", line 9\n\n'
    )
    found = _diagnose(log)
    assert found.spot is not None
    assert (found.kind, found.spot.text, found.rank) == ("unknown", "ValueError: bad sample 77", 3)
