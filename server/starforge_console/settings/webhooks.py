"""Settings about webhooks: where they may lie, and how patiently they are told."""

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field

from starforge_console.settings.group import Group

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(text: str) -> str:
    for network in text.split():
        ipaddress.ip_network(network)
    return text


class WebhookSettings(Group):
    """Who is told of changes of jobs over HTTP."""

    webhook_allow: Annotated[str, AfterValidator(_networks)] = Field(
        default="",
        description="Networks that webhooks may lie in although they are private, loopback or link-local, such as "
        "10.20.0.0/16, separated by spaces; public addresses always may.",
    )
    webhook_timeout_s: float = Field(default=10.0, gt=0, le=60, description="Longest wait for the answer of a webhook.")
    webhook_retry_s: float = Field(
        default=10.0, gt=0, le=3600, description="Wait after the first failed try; it doubles with each, up to an hour."
    )
    webhook_give_up_s: float = Field(
        default=86_400.0, ge=0, description="A change that is older is told no more, and the next one has its turn."
    )
    webhook_disable_s: float = Field(
        default=259_200.0, gt=0, description="A webhook that has failed for so long is switched off."
    )

    @property
    def allowed(self) -> tuple[Network, ...]:
        """The networks that webhooks may lie in although they are not public."""
        return tuple(map(ipaddress.ip_network, self.webhook_allow.split()))
