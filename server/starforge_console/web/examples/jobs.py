"""Examples of the messages about jobs: one job that trained, and what the console tells of it."""

from typing import Final

from pydantic import BaseModel

from starforge.contract import api, curves, results
from starforge.contract.comparing import ComparedCurve, ComparedSetting, Comparison, PrimaryView
from starforge.contract.diagnosis import DiagnosisView
from starforge.contract.files import FileEntry, FileList
from starforge.contract.jobspec import API_VERSION, KIND, JobSpec
from starforge.contract.logs import LogHit, LogHits, LogLine, LogLines
from starforge.contract.maintenance import BeginMaintenance, MaintenanceView
from starforge.contract.samples import SampleLine, SampleList, SampleSet
from starforge.contract.turns import GoOnRequest, PauseRequest

JOB: Final = "j2k7abcdef"
ATTEMPT: Final = "j2k7abcdef-1-0c1f9a"
AT: Final = 1_767_225_600.0
KEY: Final = "train/loss"
DIGEST: Final = "sha256:7be736414c2efb69337008fdb8ee5cc8143f84747c7cee5bc7feea7bcd5a251c"
_SPEC_DIGEST: Final = "sha256:856bb2770d3ed8118dbf834ff06718867f9ec518ea19ed3c318778c33cd849e6"
_RECIPE_DIGEST: Final = "sha256:338cd5efdde8b0f88e9e25f1866493ffd4a61f56fd724edf87a4c88d7295d81c"
_COMMIT: Final = "5f3a1c0d9e8b7a6f5e4d3c2b1a0f9e8d7c6b5a49"
_FACTS: Final = {"allocated": "71.2 GiB", "total": "79.1 GiB"}


def build_jobs() -> list[BaseModel]:
    """The messages about a job, from its submission to its files."""
    return [
        _submission(),
        api.StopRequest(grace_s=60, note="the loss no longer falls"),
        PauseRequest(note="others need the GPUs until noon"),
        GoOnRequest(note="the data is whole again"),
        BeginMaintenance(reason="new disks"),
        MaintenanceView(since=AT, by="ann", reason="new disks", running=3, paused=12, queued=40),
        _record(),
        build_line(),
        api.JobList(items=(build_line(),), next=None),
        api.JobCounts(states={"RUNNING": 2, "QUEUED": 1, "SUCCEEDED": 40}, active=3),
        _detail(),
        api.EventList(items=_events()),
        api.DifferenceView(job=JOB, commit=_COMMIT, text="--- a/train.py\n+++ b/train.py\n"),
        api.NativeView(job=JOB, attempt=1, fleet="slurm", text='[{"name": "starforge-' + f'{JOB}-1-0a1b2c"}}]'),
        *_curves(),
        *_files(),
        *_log(),
        _diagnosis(),
    ]


def build_spec() -> JobSpec:
    """What the example runs."""
    return JobSpec.model_validate(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "first", "project": "demo"},
            "spec": {
                "recipe": {"name": "custom/custom", "version": "1", "digest": _RECIPE_DIGEST},
                "framework": {"kind": "custom", "image": "python:3.12-slim"},
                "resources": {"pools": [{"series": "h100", "gpus_per_node": 1}]},
                "entry": {"kind": "experiment", "value": "experiments/first"},
                "workspace": {"digest": DIGEST, "bytes": 10_240, "files": 3},
                "provenance": {"commit": _COMMIT, "branch": "main"},
            },
        }
    )


def _submission() -> api.SubmitRequest:
    return api.SubmitRequest(spec=build_spec(), config={"name": "first", "lr": 0.001})


def _record() -> api.AdmissionRecord:
    return api.AdmissionRecord(
        job=JOB,
        spec_digest=_SPEC_DIGEST,
        decided_at=AT,
        checks=(api.CheckView(gate="image", outcome="passed", against="*", message="python:3.12-slim"),),
    )


def build_line() -> api.JobView:
    """A job as a line."""
    return api.JobView(
        id=JOB,
        name="first",
        project="demo",
        user="ann",
        state="RUNNING",
        reason="started",
        desired="run",
        fleet="lab",
        gpus=1,
        attempt=1,
        submitted_at=AT,
        started_at=AT + 4,
        state_since=AT + 4,
        recipe="custom/custom",
        series="h100",
        node="node-1",
        retries_left=0,
        step=20,
        total_steps=3000,
    )


def _events() -> tuple[api.EventView, ...]:
    return (
        api.EventView(number=1, at=AT, state="QUEUED", reason="admitted"),
        api.EventView(number=4, at=AT + 4, state="RUNNING", reason="started", attempt=1),
    )


def _detail() -> api.JobDetail:
    attempt = api.AttemptView(
        number=1,
        id=ATTEMPT,
        fleet="lab",
        node="node-1",
        gpus=("GPU-5f0e0c3a-0001",),
        dequeued_at=AT + 1,
        started_at=AT + 4,
    )
    return api.JobDetail(
        job=build_line(),
        spec=build_spec(),
        spec_digest=_SPEC_DIGEST,
        admission=_record(),
        events=_events(),
        attempts=(attempt,),
        log=api.LogState(received_bytes=48_211),
    )


def _curves() -> list[BaseModel]:
    steps, values, times = (0, 10, 20), (2.31, 1.4, 0.92), (AT + 5, AT + 15, AT + 25)
    compared = ComparedCurve(
        job=JOB,
        key=KEY,
        steps=steps,
        values=values,
        times=times,
        total_points=21,
        last=0.92,
        low=0.92,
        low_step=20,
        high=2.31,
        high_step=0,
    )
    keys = curves.sort_keys({KEY: 21, "train/lr": 21})
    return [
        results.MetricKeys(keys=dict.fromkeys(keys, 21), primary=KEY, total=2),
        results.Curve(key=KEY, steps=steps, values=values, times=times, total_points=21),
        Comparison(
            runs=(build_line(),),
            keys=(KEY,),
            key_count=2,
            primary=PrimaryView(key=KEY, better="lower"),
            curves=(compared,),
            settings=(ComparedSetting(name="lr", values=(0.001,), differs=False),),
        ),
    ]


def _files() -> list[BaseModel]:
    reported = SampleLine(name="generations", step=20, attempt=1, at=AT + 25, rows=1)
    return [
        results.Outputs(
            artifacts=(results.FileView(path="model.bin", bytes=4096, sha256=DIGEST.removeprefix("sha256:")),),
            checkpoints=(
                results.CheckpointView(attempt=1, step=20, path="checkpoints/1/step-20", committed=True, bytes=8192),
            ),
        ),
        FileList(path="out", items=(FileEntry(name="model.bin", kind="file", bytes=4096, modified_at=AT + 60),)),
        SampleList(names=("generations",), items=(reported,)),
        SampleSet(line=reported, columns=("prompt", "text"), rows=({"prompt": "2 + 2 =", "text": "4"},)),
        api.BlobState(digest=DIGEST, present=True, bytes=10_240),
    ]


def _log() -> list[BaseModel]:
    hit = LogHit(line=12, offset=640, text="step 20 loss 0.92", begin=8, end=12)
    line = LogLine(number=12, offset=640, text="step 20 loss 0.92")
    return [
        LogHits(attempt=1, items=(hit,), next=None, searched_from=0, searched_to=700, received_to=700, ended=False),
        LogLines(attempt=1, items=(line,), earlier=11, later=None, is_open=False, received_to=700, ended=False),
    ]


def _diagnosis() -> DiagnosisView:
    return DiagnosisView(
        job=JOB,
        attempt=1,
        category="gpu_memory",
        kind="cuda_oom",
        summary="The GPU ran out of memory.",
        root_cause_line="torch.OutOfMemoryError: CUDA out of memory.",
        line=310,
        byte_offset=20_412,
        advice="Make the batch smaller, or ask for GPUs with more memory.",
        confidence="sure",
        facts=_FACTS,
        rules_version=1,
        diagnosed_at=AT + 60,
    )
