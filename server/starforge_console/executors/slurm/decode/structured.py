"""Versions from v0.0.40 on (Slurm 23.11 to 25.11): states are lists, numbers say whether they are set or infinite."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.family import Document, Unreadable, read_reason, read_text, read_words
from starforge_console.executors.slurm.decode.notations import expand_hosts, tell_signal
from starforge_console.executors.slurm.native import NativeJob, NativeNode, NativePartition


class Structured:
    """The family of structured values."""

    def read_job(self, document: Document) -> NativeJob:
        """One entry of `jobs`, of the controller's or of the accounting's. Raises Unreadable."""
        state = document.get("state")
        accounted = state if isinstance(state, Mapping) else {}
        times = document.get("time")
        times = times if isinstance(times, Mapping) else document
        cpus = _number(document.get("cpus")) or 0
        limit = _number(times.get("limit" if times is not document else "time_limit"))
        reason = read_reason(document) or str(accounted.get("reason") or "")
        gres = document.get("gres_detail")
        return NativeJob(
            job_id=_require_number(document, "job_id"),
            name=read_text(document, "name"),
            workdir=read_text(document, "current_working_directory"),
            user=read_text(document, "user_name") or read_text(document, "user"),
            comment=_read_comment(document),
            states=_read_states(document.get("job_state", accounted.get("current"))),
            reason="" if reason == "None" else reason,
            exit_code=_read_exit(document.get("exit_code")),
            restarts=_number(document.get("restart_cnt")) or 0,
            nodes=expand_hosts(read_text(document, "nodes")),
            failed_node=read_text(document, "failed_node"),
            gres=tuple(map(str, gres)) if isinstance(gres, list) else (),
            cpus=cpus,
            memory_mb=_read_memory(document, cpus),
            submitted_at=_number(times.get("submission" if times is not document else "submit_time")) or None,
            started_at=_number(times.get("start" if times is not document else "start_time")) or None,
            ended_at=_number(times.get("end" if times is not document else "end_time")) or None,
            time_limit_s=limit * 60.0 if limit else None,
            het_job_id=_number(document.get("het_job_id")) or 0,
            het_offset=_number(document.get("het_job_offset")) or 0,
        )

    def read_node(self, document: Document) -> NativeNode:
        """One entry of `nodes`. Raises Unreadable."""
        return NativeNode(
            name=read_text(document, "name"),
            states=_read_states(document.get("state")),
            partitions=read_words(document, "partitions"),
            cpus=_number(document.get("cpus")) or 0,
            cpus_taken=_number(document.get("alloc_cpus")) or 0,
            memory_mb=_number(document.get("real_memory")) or 0,
            memory_taken_mb=_number(document.get("alloc_memory")) or 0,
            gres=read_text(document, "gres"),
            gres_used=read_text(document, "gres_used"),
            reason=read_text(document, "reason"),
        )

    def read_partition(self, document: Document) -> NativePartition:
        """One entry of `partitions`. Raises Unreadable."""
        own, maximums = document.get("partition"), document.get("maximums")
        state = own.get("state") if isinstance(own, Mapping) else document.get("state")
        limit = _number(maximums.get("time")) if isinstance(maximums, Mapping) else None
        return NativePartition(
            name=read_text(document, "name"),
            is_up="UP" in _read_states(state),
            max_time_s=limit * 60.0 if limit else None,
            is_default=False,  # no version of the family tells the flags of a partition
        )

    def write_submission(self, components: Sequence[Document], script: str) -> Document:
        """The body that submits `script`: the script is the first component's, the environment a list."""
        jobs = [_write_component(component) for component in components]
        jobs[0] = {**jobs[0], "script": script}
        return {"job": jobs[0]} if len(jobs) == 1 else {"jobs": jobs}


_RENAMED: Final = frozenset({"time_limit_min", "warning_s", "gres", "memory_mb", "environment", "open_mode", "nodes"})


def _write_component(component: Document) -> Document:
    limit, memory_mb = component["time_limit_min"], component["memory_mb"]
    written = {name: value for name, value in component.items() if name not in _RENAMED}
    written |= {
        "nodes": str(component["nodes"]),
        "environment": [f"{name}={value}" for name, value in component["environment"].items()],
        "open_mode": ["APPEND"],
        "requeue": False,
        "time_limit": {"set": False, "infinite": True} if limit is None else _set(limit),
    }
    if component["warning_s"]:
        written |= {"kill_warning_signal": "URG", "kill_warning_delay": _set(component["warning_s"])}
    if component["gres"]:
        written["tres_per_node"] = f"gres/{component['gres']}"
    if memory_mb is not None:
        written["memory_per_node"] = _set(memory_mb)
    return written


def _set(number: int) -> Document:
    return {"set": True, "infinite": False, "number": number}


def _read_states(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - parsed JSON
    """The state and its flags; an older version of the family tells one word."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        raise Unreadable(say("slurm.no_words", value=repr(value)))
    return tuple(str(word).upper() for word in words)


def _read_exit(value: Any) -> int | None:  # noqa: ANN401 - the same
    if not isinstance(value, Mapping):
        return None
    signal = value.get("signal")
    number = _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, Mapping) else None
    return tell_signal(number) if number else _number(value.get("return_code"))


def _read_comment(document: Document) -> str:
    """The accounting keeps several comments under one name."""
    comment = document.get("comment")
    return str(comment.get("job") or "") if isinstance(comment, Mapping) else read_text(document, "comment")


def _read_memory(document: Document, cpus: int) -> int:
    per_node = _number(document.get("memory_per_node"))
    nodes = _number(document.get("node_count")) or 1
    return per_node * nodes if per_node else (_number(document.get("memory_per_cpu")) or 0) * cpus


def _number(value: Any) -> int | None:  # noqa: ANN401 - the same
    """A number that is set; an infinite one, and one that is not set, is None."""
    if isinstance(value, Mapping):
        number = value.get("number")
        return number if value.get("set") and not value.get("infinite") and isinstance(number, int) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _require_number(document: Document, name: str) -> int:
    number = _number(document.get(name))
    if number is None:
        raise Unreadable(say("slurm.no_number", name=name, value=repr(document.get(name))))
    return number
