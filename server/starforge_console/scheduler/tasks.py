"""Work side by side, one task at a time for each key; whoever waits for it never waits for ever."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, TypeVar

import structlog

from starforge.errors import StarForgeError

K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger("scheduler")


class KeyedTasks(Generic[K]):
    """Tasks by key. One that hangs keeps its own key busy and holds up nobody else; one that fails is logged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[K, asyncio.Task[None]] = {}

    def begin(self, key: K, work: Callable[[], Awaitable[None]]) -> None:
        """Start `work`, unless the task of its key is under way."""
        if key in self._tasks:
            return
        task = asyncio.create_task(self._run(key, work), name=f"{self._name} {key}")
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def __contains__(self, key: K) -> bool:
        return key in self._tasks

    def keys(self) -> Collection[K]:
        """Whose tasks are under way."""
        return list(self._tasks)

    async def wait(self, keys: Collection[K], limit_s: float) -> bool:
        """Wait for the tasks of `keys`, at most `limit_s`; gives whether they have all ended."""
        tasks = [self._tasks[key] for key in keys if key in self._tasks]
        if not tasks:
            return True
        _, left = await asyncio.wait(tasks, timeout=limit_s)
        await asyncio.sleep(0)  # the callbacks of those that ended
        return not left

    async def close(self) -> None:
        """Cut off what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: K, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (StarForgeError, OSError) as error:
            _log.warning("left for the next look", work=self._name, key=str(key), error=str(error))
        except Exception:  # noqa: BLE001 - the task's outermost frame: the next look tries again
            _log.exception("failed in a way nobody foresaw", work=self._name, key=str(key))
