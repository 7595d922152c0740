"""Heartbeats: takes this daemon's epoch, then tells the console regularly, and at once when something happened.

A daemon that another one has superseded goes on telling that it is here, takes no epoch and starts nothing: two daemons
from one copied state directory would else push each other out for ever.
"""

import asyncio
import logging
import random
import secrets
import time
from dataclasses import replace
from typing import Final

from starforge.contract.registration import EpochRequest, Fenced, HeartbeatAnswer, Superseded
from starforge.errors import Refused, StarForgeError
from starforge_forgelet.console import ConsoleLink, Signs
from starforge_forgelet.node import Node
from starforge_forgelet.state import Epoch, NodeState, Pulse

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
LEAST_GAP_S: Final = 0.05
"""Events come in bursts; a heartbeat tells of all that happened before it."""

_log = logging.getLogger("forgelet.heartbeat")


class Heartbeats:
    """The one loop that speaks to the console by itself. Attribute `pulse` says how it fares."""

    def __init__(self, node: Node, state: NodeState, link: ConsoleLink, signer: Signs) -> None:
        self.pulse = Pulse()
        self._node = node
        self._state = state
        self._link = link
        self._signer = signer
        self._counter = 0
        self._period_s = node.identity.heartbeat_s
        self._wanted = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Send one soon; from any thread."""
        self._loop.call_soon_threadsafe(self._wanted.set)

    async def run(self) -> None:
        """Go on until cancelled."""
        pause_s = 0.0
        while True:
            self._wanted.clear()
            if await self._try_step():
                pause_s = 0.0
                await asyncio.sleep(LEAST_GAP_S)
                await _wait(self._wanted, self._period_s)
                continue
            pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, pause_s * 2))
            # All machines lose the console at the same moment, and must not come back at the same one.
            await asyncio.sleep(pause_s * random.uniform(0.7, 1.0))  # noqa: S311 - no secret

    async def _try_step(self) -> bool:
        """Whether it went well; a machine that falls silent is lost to its console, so nothing ends the loop."""
        try:
            await self._step()
        except StarForgeError as error:
            self._note_trouble(error)
            return False
        except Exception as error:  # noqa: BLE001 - the outermost frame of one step of the loop
            _log.exception("a heartbeat failed in a way nobody foresaw")
            self._note(replace(self.pulse, trouble=f"a heartbeat failed: {type(error).__name__}: {error}"))
            return False
        return True

    async def _step(self) -> None:
        node = self._node
        if node.epoch == 0 and not await self._take_epoch():
            self._note(replace(self.pulse, trouble=f"another daemon has taken epoch {node.superseded_by}"))
            return
        began = time.monotonic()
        report = await node.report()
        self._counter += 1
        answer = await self._link.beat(node.identity, self._signer, report, self._counter)
        match answer:
            case HeartbeatAnswer():
                self._hear(answer, time.monotonic() - began)
            case Superseded():
                node.superseded_by = answer.superseded_by
                self._note(replace(self.pulse, trouble=f"another daemon has taken epoch {answer.superseded_by}"))
                _log.error("another daemon with this node's identity has taken epoch %d", answer.superseded_by)
            case Fenced():
                _log.warning("this node was marked lost: removing %d attempts", len(answer.remove))
                await node.catch_up(answer.fence, answer.remove)
                self._wanted.set()

    async def _take_epoch(self) -> bool:
        """Ask for the next epoch; the question is kept before it is asked, so that a lost answer is given again."""
        node = self._node
        known = self._state.load_epoch()
        if not known.nonce:
            known = replace(known, nonce=secrets.token_hex(16))
            self._state.write_epoch(known)
        request = EpochRequest(have=known.number, nonce=known.nonce)
        answer = await self._link.take_epoch(node.identity, self._signer, request)
        if isinstance(answer, Superseded):
            node.superseded_by = answer.superseded_by
            return False
        self._state.write_epoch(Epoch(number=answer))
        node.epoch, node.superseded_by, self._counter = answer, None, 0
        _log.info("%s serves in epoch %d", node.identity.node, answer)
        return True

    def _hear(self, answer: HeartbeatAnswer, took_s: float) -> None:
        self._period_s = answer.heartbeat_s
        self._node.note_heard(answer.heartbeat_s)
        trouble = "" if answer.reachable else f"the console does not reach this machine: {answer.unreachable_why}"
        now = time.time()
        skew_s = now - took_s / 2 - answer.now
        epoch = self._node.epoch
        self._note(Pulse(epoch=epoch, heard_at=now, reachable=answer.reachable, trouble=trouble, skew_s=skew_s))

    def _note_trouble(self, error: StarForgeError) -> None:
        self._note(replace(self.pulse, trouble=str(error)))
        if isinstance(error, Refused):
            self._node.epoch = 0  # whatever was agreed is to be agreed anew

    def _note(self, pulse: Pulse) -> None:
        if pulse.trouble != self.pulse.trouble:
            _log.log(logging.WARNING if pulse.trouble else logging.INFO, pulse.trouble or "the console hears this node")
        self.pulse = pulse
        self._state.tell_pulse(pulse)


async def _wait(event: asyncio.Event, longest_s: float) -> None:
    try:
        async with asyncio.timeout(longest_s):
            await event.wait()
    except TimeoutError:
        return
