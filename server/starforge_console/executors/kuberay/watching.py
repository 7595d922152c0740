"""Watches of what the cluster changes. They only wake: what is true stands in lists, which are asked for anew."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final

import structlog

from starforge.errors import BackendUnreachable
from starforge_console.executors.kuberay.api import Document, KubeApi
from starforge_console.executors.kuberay.replies import Expired, KubeSilent

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_LONGEST_ASKED_S: Final = 300.0
_log = structlog.get_logger("kuberay fleet")


class Watch:
    """What is at one path, for one selector; where it may not be watched, it is looked at every `look_s` seconds."""

    def __init__(self, api: KubeApi, path: str, selector: str, look_s: float) -> None:
        self._api = api
        self._path = path
        self._selector = selector
        self._look_s = look_s

    async def keep(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each change, and after each time in which one may have been missed."""
        version, pause_s = "", _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                if not version:
                    _, version = await self._api.list_all(self._path, labelSelector=self._selector)
                    wake()
                version = await self._follow(version, wake)
                # The server ends a watch from time to time: it goes on where it was. What stands between may end each
                # at once.
                pause_s = _lengthen(pause_s, began)
                await asyncio.sleep(_scatter(pause_s))
                continue
            except Expired:
                version, pause_s = "", _lengthen(pause_s, began)
                await asyncio.sleep(_scatter(pause_s))
                continue
            except BackendUnreachable as error:
                pause_s = _lengthen(pause_s, began)
                wait_s = _decide_pause(error, pause_s, self._look_s)
                _log.info("a watch broke off", path=self._path, why=error.what, again_in_s=round(wait_s, 1))
            except Exception:  # noqa: BLE001 - the task's outermost frame
                _log.exception("a watch failed in a way nobody foresaw", path=self._path)
                wait_s = _LONGEST_PAUSE_S
            version = ""
            wake()
            await asyncio.sleep(wait_s)

    async def _follow(self, version: str, wake: Callable[[], None]) -> str:
        """The version that was seen last, once the server has ended the watch."""
        async for event in self._api.watch(self._path, version, labelSelector=self._selector):
            version = _find_version(event) or version
            if event.get("type") != "BOOKMARK":
                wake()
        return version


def _find_version(event: Document) -> str:
    found = event.get("object")
    metadata = found.get("metadata") if isinstance(found, dict) else None
    return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""


def _decide_pause(error: BackendUnreachable, pause_s: float, look_s: float) -> float:
    """As the server asks; else longer each time, and never all consoles at once."""
    asked = error.retry_after_s if isinstance(error, KubeSilent) else None
    forbidden = isinstance(error, KubeSilent) and error.status in {401, 403}
    return _scatter(min(_LONGEST_ASKED_S, asked) if asked else look_s if forbidden else pause_s)


def _lengthen(pause_s: float, began: float) -> float:
    """The next pause: twice the last one, and short again after what went well for long."""
    went_well = time.monotonic() - began >= _LONGEST_PAUSE_S
    return _FIRST_PAUSE_S if went_well else min(_LONGEST_PAUSE_S, 2 * pause_s)


def _scatter(pause_s: float) -> float:
    return pause_s * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
