"""Tells webhooks what the ledger's events say: in order, at least once, each on its own, whatever the others do.

A webhook's place in the ledger moves on after its answer, so a console that was killed in between sends the same
delivery again, under the same id.
"""

import asyncio
from typing import Final

import structlog

from starforge.contract.webhooks import NOTE_LENGTH, ChangedJob, WebhookMessage
from starforge.errors import StarForgeError
from starforge.wording import cut_middle, describe_duration
from starforge_console.ledger.webhooks import (
    Delivery,
    Occurrence,
    Webhook,
    disable_webhook,
    find_active,
    find_next,
    is_far_behind,
    list_active,
    note_done,
    note_failed,
    pass_over,
)
from starforge_console.settings.webhooks import WebhookSettings
from starforge_console.wakeups import WEBHOOKS
from starforge_console.webhooks.sending import Answered, WebhookParts

AT_ONCE: Final = 16
"""So many webhooks are told at the same time; the others have their turn."""
IDLE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 3600.0
_DOUBLINGS: Final = 12

_log = structlog.get_logger("webhooks")


class Dispatcher:
    """Tells all webhooks of one console."""

    def __init__(self, parts: WebhookParts, settings: WebhookSettings, public_url: str) -> None:
        self._ledger = parts.ledger
        self._vault = parts.vault
        self._sender = parts.sender
        self._clock = parts.clock
        self._wakeups = parts.wakeups
        self._settings = settings
        self._public_url = public_url.rstrip("/")
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._asked_again: set[int] = set()

    async def run_once(self) -> float:
        """Begin to tell whoever is due; gives the seconds until somebody is. Waits for nobody's answer."""
        hooks = await self._ledger.read(list_active)
        now = self._clock.now()
        waits_s = [IDLE_S]
        for hook in hooks:
            if hook.id in self._running:
                self._asked_again.add(hook.id)  # it may have looked already, and found nothing
                continue
            due_s = (hook.next_try_at or now) - now
            if due_s > 0:
                waits_s.append(due_s)
                continue
            task = self._running[hook.id] = asyncio.create_task(self._tell(hook.id))
            task.add_done_callback(lambda done, webhook_id=hook.id: self._forget(webhook_id, done))  # type: ignore[misc] # mypy sees no type in a default
        return max(0.05, min(waits_s))

    async def close(self) -> None:
        """Stop telling; what was not marked is told again after the next start."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _forget(self, webhook_id: int, done: asyncio.Task[None]) -> None:
        self._running.pop(webhook_id, None)
        if webhook_id in self._asked_again:
            self._asked_again.discard(webhook_id)
            self._wakeups.notify(WEBHOOKS)
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.error("a webhook could not be told", webhook=webhook_id, error=str(error))

    async def _tell(self, webhook_id: int) -> None:
        """Everything that the webhook is to be told, until a try fails; after each delivery others have their turn."""
        is_more = True
        while is_more:
            async with self._turns:
                is_more = await self._tell_next(webhook_id)

    async def _tell_next(self, webhook_id: int) -> bool:
        """Whether there was something, and it came through or was given up."""
        # Each time anew: its owner may have left, or administrate no more, while it was told what went before.
        hook = await self._ledger.read(lambda c: find_active(c, webhook_id))
        if hook is None:
            return False
        event, is_behind = await self._ledger.read(lambda c: (find_next(c, hook), is_far_behind(c, hook)))
        if event is None:
            if is_behind:
                await self._ledger.write(lambda c: pass_over(c, hook))
            return False
        answered = await self._try(hook, event)
        now = self._clock.now()
        if answered.is_success:
            delivery = _build_delivery(hook, event, answered, now, "delivered")
            return await self._ledger.write(lambda c: note_done(c, hook, delivery))
        return await self._note_failure(hook, event, answered, now)

    async def _try(self, hook: Webhook, event: Occurrence) -> Answered:
        try:
            secret = await asyncio.to_thread(lambda: self._vault.unseal(hook.sealed, bound_to=hook.bound_to))
        except StarForgeError as error:
            return Answered(None, str(error))
        return await self._sender.send(hook.url, secret, build_message(hook.id, event, self._public_url))

    async def _note_failure(self, hook: Webhook, event: Occurrence, answered: Answered, now: float) -> bool:
        settings = self._settings
        failed_s = now - (now if hook.failing_since is None else hook.failing_since)
        if failed_s >= settings.webhook_disable_s:
            why = f"it has failed for {describe_duration(failed_s)}, last: {answered.error}"
            await self._ledger.write(lambda c: disable_webhook(c, hook, event.job, why, now))
            _log.warning("a webhook was switched off", webhook=hook.id, user=hook.user, error=answered.error)
            return False
        pause_s = decide_pause_s(settings.webhook_retry_s, hook.tries + 1)
        waiting = _build_delivery(hook, event, answered, now, "waiting")
        await self._ledger.write(lambda c: note_failed(c, hook, waiting, now + pause_s))
        if now - event.at >= settings.webhook_give_up_s:
            given_up = _build_delivery(hook, event, answered, now, "given_up")
            return await self._ledger.write(lambda c: note_done(c, hook, given_up))
        asyncio.get_running_loop().call_later(min(pause_s, IDLE_S), self._wakeups.notify, WEBHOOKS)
        return False


def decide_pause_s(first_s: float, tries: int) -> float:
    """How long to wait after so many failed tries. Pure."""
    return min(first_s * 2.0 ** min(tries - 1, _DOUBLINGS), LONGEST_PAUSE_S)


def build_message(webhook_id: int, event: Occurrence, public_url: str) -> WebhookMessage:
    """What a webhook is told of an event: the same again for the same event. Pure."""
    job = ChangedJob(
        id=event.job,
        name=event.name,
        project=event.project,
        user=event.user,
        state=event.state,
        reason=event.reason,
        attempt=event.attempt,
        note=cut_middle(event.note, NOTE_LENGTH),
        url=f"{public_url}/jobs/{event.job}",
    )
    return WebhookMessage(
        id=delivery_id(webhook_id, event.number), kind="job.state", number=event.number, at=event.at, job=job
    )


def delivery_id(webhook_id: int, event: int) -> str:
    """The id under which a webhook is told of an event. Pure."""
    return f"{webhook_id}-{event}"


def _build_delivery(hook: Webhook, event: Occurrence, answered: Answered, now: float, outcome: str) -> Delivery:
    return Delivery(
        event=event.number,
        job=event.job,
        state=event.state,
        at=now,
        tries=hook.tries + 1,
        status=answered.status,
        error=answered.error,
        outcome=outcome,
    )
