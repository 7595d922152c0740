"""The refusal of a job that is not there, in the same words wherever one is looked for."""

from starforge.errors import NotFound
from starforge.said.sentence import say


def refuse_missing_job(job_id: str) -> NotFound:
    """What to raise for an id that no job has."""
    return NotFound(say("fault.no_job", job=repr(job_id)), next_step=say("fault.no_job_next"))
