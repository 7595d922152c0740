"""How an attempt ended, in one line."""

from typing import Final

EXITS: Final = {
    "exit.as_asked": "ended as it was asked to",
    "exit.limit_by_backend": "its time limit was over; the backend ended it",
    "exit.limit": "its time limit was reached",
    "exit.preempted": "the backend took its place for a job that goes before it",
    "exit.node_failed": "a machine that it ran on failed",
    "exit.lost": "the engine lost the exit; no record",
    "exit.lost_complete": "complete; the engine lost the exit",
    "exit.lost_incomplete": "the engine lost the exit and the job was not complete",
    "exit.zero": "exit code 0",
    "exit.zero_unrecorded": "exit code 0, but the runner left no exit record",
    "exit.term_incomplete": "ended by a TERM that nobody asked for, not complete",
    "exit.term": "ended by a TERM that nobody asked for",
    "exit.engine_restarted": "killed by a restart of the engine",
    "exit.port_taken": "a port that the attempt was given is taken",
    "exit.capsule_changed": "the capsule was changed after it was made",
    "exit.no_python": "the image has no usable Python (3.8 or newer)",
    "exit.requirements": "the image does not meet the recipe's requirements",
    "exit.memory": "the kernel killed it for memory",
    "exit.memory_part": "a process of it was killed for memory",
    "exit.record_unwritten": "it ended with 0 and made its own folder unusable: the exit record could not be written",
    "exit.killed": "killed with signal 9, and nothing says by whom",
    "exit.ended": "ended by signal 15, and nothing says by whom",
    "exit.untold_255": "255 is a job's own code, or what an engine says of an exit that it lost; nothing says which",
    "exit.code": "exit code {code}",
    "exit.code_line": "exit code {code}: {line}",
    "exit.gone": "the container is gone, and it left no exit record",
    "exit.diagnosed": "{note}: {cause}",
}
"""By code."""
