"""Lets one request at a time begin an ended job anew, or delete it."""

import asyncio
from weakref import WeakValueDictionary


class OneByOne:
    """A lock for each job that somebody has in hand.

    A deletion takes the files before the record. A retry that was decided in between would start without them.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, job_id: str) -> asyncio.Lock:
        """The job's, which is to be held from the look at the job until it is changed."""
        return self._locks.setdefault(job_id, asyncio.Lock())
