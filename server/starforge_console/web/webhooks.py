"""Routes of webhooks: add, list, show, try, switch on again, remove."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from starforge.contract.webhooks import (
    AddWebhook,
    DeliveryView,
    WebhookAdded,
    WebhookDetail,
    WebhookList,
    WebhookView,
)
from starforge_console.ledger.webhooks import Delivery, Webhook
from starforge_console.web.deps import Services, Submitter
from starforge_console.web.log_lines import LARGEST
from starforge_console.web.problems import problem_responses
from starforge_console.webhooks.dispatcher import delivery_id

router = APIRouter(tags=["webhooks"])

Number = Annotated[int, Path(ge=1, le=LARGEST)]


@router.get("/webhooks", responses=problem_responses(401, 403))
async def list_webhooks(services: Services, account: Submitter) -> WebhookList:
    """The caller's webhooks, for administrators everybody's, each with its last delivery."""
    found = await services.webhooks.list_for(account)
    return WebhookList(items=tuple(_show(hook, last) for hook, last in found))


@router.post("/webhooks", status_code=201, responses=problem_responses(401, 403, 409, 413))
async def add_webhook(services: Services, account: Submitter, request: AddWebhook) -> WebhookAdded:
    """Be told of what happens to jobs from now on; the answer is the only one that shows the secret."""
    hook, secret = await services.webhooks.add(account, request)
    return WebhookAdded(webhook=_show(hook, None), secret=secret.reveal())


@router.get("/webhooks/{webhook_id}", responses=problem_responses(401, 403, 404))
async def show_webhook(services: Services, account: Submitter, webhook_id: Number) -> WebhookDetail:
    """One webhook with its last deliveries."""
    hook, deliveries = await services.webhooks.show(account, webhook_id)
    shown = tuple(_show_delivery(hook.id, one) for one in deliveries)
    return WebhookDetail(webhook=_show(hook, next(iter(deliveries), None)), deliveries=shown)


@router.post("/webhooks/{webhook_id}/test", responses=problem_responses(401, 403, 404, 409))
async def test_webhook(services: Services, account: Submitter, webhook_id: Number) -> DeliveryView:
    """Send a ping at once, and tell what came of it; it is not tried again."""
    return _show_delivery(webhook_id, await services.webhooks.test(account, webhook_id))


@router.post("/webhooks/{webhook_id}/enable", responses=problem_responses(401, 403, 404))
async def enable_webhook(services: Services, account: Submitter, webhook_id: Number) -> WebhookView:
    """Tell a webhook again that was switched off, of what happens from now on."""
    hook, deliveries = await services.webhooks.enable(account, webhook_id)
    return _show(hook, next(iter(deliveries), None))


@router.delete("/webhooks/{webhook_id}", status_code=204, responses=problem_responses(401, 403, 404))
async def remove_webhook(services: Services, account: Submitter, webhook_id: Number) -> Response:
    """Remove a webhook; nothing more is sent to it."""
    await services.webhooks.remove(account, webhook_id)
    return Response(status_code=204)


def _show(hook: Webhook, last: Delivery | None) -> WebhookView:
    return WebhookView(
        id=hook.id,
        url=hook.url,
        events=hook.events,
        project=hook.project,
        jobs="all" if hook.jobs == "all" else "own",
        user=hook.user,
        created_at=hook.created_at,
        failing_since=hook.failing_since,
        disabled_at=hook.disabled_at,
        disabled_why=hook.disabled_why,
        last=None if last is None else _show_delivery(hook.id, last),
    )


def _show_delivery(webhook_id: int, one: Delivery) -> DeliveryView:
    return DeliveryView.model_validate(
        {
            "id": delivery_id(webhook_id, one.event) if one.event else "ping",
            "job": one.job,
            "state": one.state,
            "at": one.at,
            "tries": one.tries,
            "status": one.status,
            "error": one.error,
            "outcome": one.outcome,
        }
    )
