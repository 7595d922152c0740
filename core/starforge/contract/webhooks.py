"""The messages about webhooks (`/api/v1/webhooks`), and what is sent to them: a POST for each change of a job.

A delivery carries `X-StarForge-Delivery`, which is the same when it is sent again; `X-StarForge-Timestamp`, the Unix
second at which it was sent; and `X-StarForge-Signature`, `v1=` and the hexadecimal HMAC-SHA256, under the webhook's
secret, of the timestamp, a full stop and the body.
"""

import hashlib
import hmac
from typing import Annotated, Final, Literal

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen
from starforge.contract.launch import Secret
from starforge.contract.states import JobState

HEADER_DELIVERY: Final = "X-StarForge-Delivery"
HEADER_TIMESTAMP: Final = "X-StarForge-Timestamp"
HEADER_SIGNATURE: Final = "X-StarForge-Signature"
SIGNATURE_SCHEME: Final = "v1"
URL_LENGTH: Final = 2000
NOTE_LENGTH: Final = 500
"""So much of a job's note is sent."""
WEBHOOKS_OF_A_USER: Final = 20
DELIVERIES_KEPT: Final = 50
"""So many of a webhook's last deliveries are remembered."""


def sign(secret: Secret, timestamp: int, body: bytes) -> str:
    """The signature of a delivery. Pure."""
    signed = str(timestamp).encode() + b"." + body
    return f"{SIGNATURE_SCHEME}={hmac.new(secret.reveal().encode(), signed, hashlib.sha256).hexdigest()}"


class AddWebhook(Frozen):
    """`POST /webhooks`. `jobs`: one's own, or everybody's, which takes an administrator."""

    url: str = Field(min_length=1, max_length=URL_LENGTH, description="http or https, without user or password")
    events: tuple[JobState, ...] = Field(default=(), description="states to be told of; none stands for all of them")
    project: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="jobs of this project alone"
    )
    jobs: Literal["own", "all"] = "own"


class DeliveryView(Answer):
    """A delivery as far as it has come. `status` is what was answered last, null where nobody answered."""

    id: str
    job: str | None
    state: str | None
    at: float = Field(description="of the last try")
    tries: int
    status: int | None
    error: str = ""
    outcome: Literal["delivered", "waiting", "given_up"]


class WebhookView(Answer):
    """A webhook. No answer but the first holds its secret."""

    id: int
    url: str
    events: tuple[str, ...]
    project: str | None
    jobs: Literal["own", "all"]
    user: str
    created_at: float
    failing_since: float | None = Field(default=None, description="null while deliveries succeed")
    disabled_at: float | None = None
    disabled_why: str = ""
    last: DeliveryView | None = None


class WebhookList(Answer):
    """`GET /webhooks`: the caller's own; for administrators everybody's."""

    items: tuple[WebhookView, ...]


class WebhookDetail(Answer):
    """`GET /webhooks/{id}`: with its last deliveries, newest first."""

    webhook: WebhookView
    deliveries: tuple[DeliveryView, ...]


class WebhookAdded(Answer):
    """The answer to `POST /webhooks`: the only one that shows the secret."""

    webhook: WebhookView
    secret: str


class ChangedJob(Answer):
    """The job whose state changed, as it was told by the event."""

    id: str
    name: str
    project: str
    user: str
    state: str
    reason: str
    attempt: int | None
    note: str
    url: str


class WebhookMessage(Answer):
    """The body of a delivery. `number` is the event's, which grows with every change; a `ping` has no job."""

    id: str
    kind: Literal["job.state", "ping"]
    number: int
    at: float
    job: ChangedJob | None
