"""Versions v0.0.37 and v0.0.38 (Slurm 21.08 and 22.05): plain numbers, one word for a state, wait statuses."""

from collections.abc import Sequence
from typing import Final

from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.family import Document, Unreadable, read_reason, read_text, read_words
from starforge_console.executors.slurm.decode.notations import decode_status, expand_hosts
from starforge_console.executors.slurm.native import NativeJob, NativeNode, NativePartition

UNLIMITED: Final = "UNLIMITED"


class Plain:
    """The family of plain values."""

    def read_job(self, document: Document) -> NativeJob:
        """One entry of `jobs`. Raises Unreadable."""
        nodes = expand_hosts(read_text(document, "nodes"))
        cpus = _number(document, "cpus")
        limit = _number(document, "time_limit")
        gres = document.get("gres_detail")
        return NativeJob(
            job_id=_require(document, "job_id"),
            name=read_text(document, "name"),
            workdir=read_text(document, "current_working_directory"),
            user=read_text(document, "user_name"),
            comment=read_text(document, "comment"),
            states=(_require_text(document, "job_state"),),
            reason=read_reason(document),
            exit_code=decode_status(_number(document, "exit_code")),
            restarts=_number(document, "restart_cnt"),
            nodes=nodes,
            gres=tuple(map(str, gres)) if isinstance(gres, list) else (),
            cpus=cpus,
            memory_mb=_read_memory(document, cpus),
            submitted_at=_number(document, "submit_time") or None,
            started_at=_number(document, "start_time") or None,
            ended_at=_number(document, "end_time") or None,
            time_limit_s=limit * 60.0 if limit else None,
            het_job_id=_number(document, "het_job_id"),
            het_offset=_number(document, "het_job_offset"),
        )

    def read_node(self, document: Document) -> NativeNode:
        """One entry of `nodes`. Raises Unreadable."""
        return NativeNode(
            name=_require_text(document, "name"),
            states=(_require_text(document, "state").upper(), *map(str.upper, read_words(document, "state_flags"))),
            partitions=read_words(document, "partitions"),
            cpus=_number(document, "cpus"),
            cpus_taken=_number(document, "alloc_cpus"),
            memory_mb=_number(document, "real_memory"),
            memory_taken_mb=_number(document, "alloc_memory"),
            gres=read_text(document, "gres"),
            gres_used=read_text(document, "gres_used"),
            reason=read_text(document, "reason"),
        )

    def read_partition(self, document: Document) -> NativePartition:
        """One entry of `partitions`. Raises Unreadable."""
        limit = _number(document, "max_time_limit")
        return NativePartition(
            name=_require_text(document, "name"),
            is_up=read_text(document, "state") == "UP",
            max_time_s=limit * 60.0 if limit > 0 else None,
            is_default="default" in map(str.lower, read_words(document, "flags")),
        )

    def write_submission(self, components: Sequence[Document], script: str) -> Document:
        """The body that submits `script`; `gres` instead of `tres_per_node`, and no key for queueing again.

        A false "requeue" is taken for a true one by these versions.
        """
        jobs = [_write_component(component) for component in components]
        return {"job": jobs[0], "script": script} if len(jobs) == 1 else {"jobs": jobs, "script": script}


def _write_component(component: Document) -> Document:
    limit = component["time_limit_min"]
    written = {name: value for name, value in component.items() if name not in _RENAMED}
    written["time_limit"] = UNLIMITED if limit is None else limit
    if component["warning_s"]:
        written["signal"] = f"URG@{component['warning_s']}"
    if component["gres"]:
        written["gres"] = component["gres"]
    if component["memory_mb"] is not None:
        written["memory_per_node"] = component["memory_mb"]
    return written


_RENAMED: Final = frozenset({"time_limit_min", "warning_s", "gres", "memory_mb"})


def _read_memory(document: Document, cpus: int) -> int:
    per_node, per_cpu = _number(document, "memory_per_node"), _number(document, "memory_per_cpu")
    return per_node * max(1, _number(document, "node_count")) if per_node else per_cpu * cpus


def _number(document: Document, name: str) -> int:
    value = document.get(name)
    return value if isinstance(value, int) else 0


def _require(document: Document, name: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable(say("slurm.no_number", name=name, value=repr(value)))
    return value


def _require_text(document: Document, name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Unreadable(say("slurm.no_word", name=name, value=repr(value)))
    return value
