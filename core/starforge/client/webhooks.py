"""The calls of the console's API about webhooks, typed by the contract."""

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.webhooks import AddWebhook, DeliveryView, WebhookAdded, WebhookDetail, WebhookList, WebhookView


class WebhookConsole(Console):
    """The console as its API shows webhooks."""

    def webhooks(self) -> WebhookList:
        """The caller's, or everybody's for an administrator."""
        return self._get(WebhookList, "/webhooks")

    def webhook(self, webhook_id: int) -> WebhookDetail:
        """One with its last deliveries."""
        return self._get(WebhookDetail, f"/webhooks/{webhook_id}")

    def add_webhook(self, new: AddWebhook) -> WebhookAdded:
        """Add one; the answer alone holds its secret."""
        body = new.model_dump(mode="json", exclude_defaults=True)
        return self._send(WebhookAdded, Request(method="POST", path="/webhooks", json=body, repeatable=False))

    def test_webhook(self, webhook_id: int) -> DeliveryView:
        """Have a ping sent, and what came of it."""
        path = f"/webhooks/{webhook_id}/test"
        return self._send(DeliveryView, Request(method="POST", path=path, repeatable=False, wait_s=60))

    def enable_webhook(self, webhook_id: int) -> WebhookView:
        """Have one told again that was switched off."""
        return self._send(WebhookView, Request(method="POST", path=f"/webhooks/{webhook_id}/enable"))

    def remove_webhook(self, webhook_id: int) -> None:
        """Remove one. Raises NotFound."""
        self.connection.send(Request(method="DELETE", path=f"/webhooks/{webhook_id}", repeatable=False))
