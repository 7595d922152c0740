"""Users' webhooks: added, listed, tried, switched on again, removed. A secret is shown once, by the adding alone."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

import structlog

from starforge.contract.launch import Secret
from starforge.contract.webhooks import DELIVERIES_KEPT, WEBHOOKS_OF_A_USER, AddWebhook, WebhookMessage
from starforge.errors import InputError
from starforge.said.sentence import say
from starforge_console.accounts.sign_in import check_administrator, check_owner
from starforge_console.domain.reachable import parse_target
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import audited
from starforge_console.ledger.webhooks import (
    Delivery,
    NewWebhook,
    Webhook,
    add_webhook,
    binding_of,
    drop_webhook,
    enable_webhook,
    list_deliveries,
    list_webhooks,
    load_webhook,
)
from starforge_console.wakeups import WEBHOOKS
from starforge_console.webhooks.sending import WebhookParts

SECRET_PREFIX: Final = "sfw_"  # noqa: S105 - how secrets begin, and none itself

_log = structlog.get_logger("webhooks")


class Webhooks:
    """The webhooks of all users; each sees and changes its own, and administrators everybody's."""

    def __init__(self, parts: WebhookParts) -> None:
        self._ledger = parts.ledger
        self._vault = parts.vault
        self._sender = parts.sender
        self._clock = parts.clock
        self._wakeups = parts.wakeups

    async def add(self, account: Account, request: AddWebhook) -> tuple[Webhook, Secret]:
        """Keep a webhook; gives it with its secret, which nobody can read again.

        Raises:
            InputError: its address may not be called.
            Forbidden: it asks for everybody's jobs, and the account does not administrate.
            Conflict: the account has as many as a user may have.

        """
        if request.jobs == "all":
            check_administrator(account)
        refused = await self._sender.find_refused(request.url)
        if refused:
            raise InputError("the webhook was not added", why=refused, next_step="name an address that is public")
        secret = Secret(SECRET_PREFIX + secrets.token_urlsafe(32))
        bound_to = binding_of(account.user_id, request.url)
        sealed = await asyncio.to_thread(lambda: self._vault.seal(secret, bound_to=bound_to))
        new = NewWebhook(
            user_id=account.user_id,
            url=request.url,
            events=tuple(request.events),
            project=request.project,
            jobs=request.jobs,
            sealed=sealed,
        )
        now = self._clock.now()
        host = parse_target(new.url)[0]
        kept = await self._ledger.write(
            audited(
                lambda c: add_webhook(c, new, WEBHOOKS_OF_A_USER, now),
                lambda made: say("did.webhook_added", webhook=made.id, host=host, jobs=made.jobs),
            )
        )
        _log.info("a webhook was added", user=account.user, webhook=kept.id, host=host)
        return kept, secret

    async def list_for(self, account: Account) -> Sequence[tuple[Webhook, Delivery | None]]:
        """What the account may see, each with its last delivery."""
        user_id = None if account.operates else account.user_id
        found = await self._ledger.read(
            lambda c: [(one, list_deliveries(c, one.id, 1)) for one in list_webhooks(c, user_id)]
        )
        return [(hook, last[0] if last else None) for hook, last in found]

    async def show(self, account: Account, webhook_id: int) -> tuple[Webhook, Sequence[Delivery]]:
        """One of them with its deliveries. Raises NotFound and Forbidden."""
        hook, found = await self._ledger.read(
            lambda c: (load_webhook(c, webhook_id), list_deliveries(c, webhook_id, DELIVERIES_KEPT))
        )
        check_owner(account, hook.user_id, say("act.use_webhook", webhook=webhook_id))
        return hook, found

    async def remove(self, account: Account, webhook_id: int) -> None:
        """Forget one. Raises NotFound and Forbidden."""
        hook = await self._load(account, webhook_id)
        told = say("did.webhook_removed", webhook=hook.id, user=hook.user)
        await self._ledger.write(audited(lambda c: drop_webhook(c, hook.id), told))
        _log.info("a webhook was removed", user=account.user, webhook=hook.id)

    async def enable(self, account: Account, webhook_id: int) -> tuple[Webhook, Sequence[Delivery]]:
        """Tell one again that was switched off, from now on; gives it as `show` does. Raises NotFound and Forbidden."""
        hook = await self._load(account, webhook_id)
        told = say("did.webhook_enabled", webhook=hook.id, user=hook.user)
        await self._ledger.write(audited(lambda c: enable_webhook(c, hook.id), told))
        self._wakeups.notify(WEBHOOKS)
        return await self.show(account, webhook_id)

    async def test(self, account: Account, webhook_id: int) -> Delivery:
        """Send a ping now, once; it is kept nowhere. Raises NotFound and Forbidden."""
        hook = await self._load(account, webhook_id)
        secret = await asyncio.to_thread(lambda: self._vault.unseal(hook.sealed, bound_to=hook.bound_to))
        now = self._clock.now()
        message = WebhookMessage(id=f"ping-{secrets.token_hex(8)}", kind="ping", number=0, at=now, job=None)
        answered = await self._sender.send(hook.url, secret, message)
        return Delivery(
            event=0,
            job=None,
            state=None,
            at=now,
            tries=1,
            status=answered.status,
            error=answered.error,
            outcome="delivered" if answered.is_success else "given_up",
        )

    async def _load(self, account: Account, webhook_id: int) -> Webhook:
        hook = await self._ledger.read(lambda c: load_webhook(c, webhook_id))
        check_owner(account, hook.user_id, say("act.use_webhook", webhook=webhook_id))
        return hook
