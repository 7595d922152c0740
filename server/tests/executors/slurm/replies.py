"""Replies of slurmrestd as versions 24.05 and 25.11 give them, as far as anything is read of them."""

from typing import Any


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def complaint(code: int, error: str, description: str = "Batch job submission failed") -> dict[str, Any]:
    return {"description": description, "error_number": code, "error": error, "source": "slurmctld"}


def refused(code: int, error: str) -> dict[str, Any]:
    """A submission's reply of which nothing came."""
    return {"job_id": 0, "step_id": "", "errors": [complaint(code, error)], "warnings": []}


def jobs(*entries: dict[str, Any], errors: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"jobs": list(entries), "last_update": number(0), "errors": errors or [], "warnings": []}


def exit_code(code: int | None = None, signal: int | None = None) -> dict[str, Any]:
    return {
        "status": ["SUCCESS" if code == 0 and signal is None else "ERROR"],
        "return_code": number(code),
        "signal": {"id": number(signal), "name": ""},
    }


def job(*states: str, **members: Any) -> dict[str, Any]:
    """One entry of a list of jobs; `state` is a list since v0.0.40."""
    return {
        "job_id": 649719,
        "name": "starforge-j2k7abcdef-1-0a1b2c",
        "user_name": "ada",
        "comment": "",
        "job_state": list(states),
        "state_reason": "None",
        "exit_code": exit_code(0),
        "restart_cnt": 0,
        "nodes": "cn001",
        "failed_node": "",
        "het_job_id": number(0),
        "het_job_offset": number(0),
        **members,
    }
