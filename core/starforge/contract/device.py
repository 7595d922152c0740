"""The messages of signing in by a code, in the shape of RFC 8628 (`/api/v1/device/code`, `/api/v1/device/token`)."""

from typing import Annotated, Final, Literal

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen

FEATURE: Final = "device_login"
"""What `GET /meta` names where the console signs in so."""
GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"


class BeginDevice(Frozen):
    """`POST /device/code`: begin to sign in. Needs no token."""

    client_id: Annotated[str, Field(max_length=200)] = Field(
        default="sf", description="what the page says of who asks, such as the program and its machine"
    )


class DeviceBegun(Answer):
    """What the command polls with, and what it shows to whoever runs it. Times are in seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: float


class PollDevice(Frozen):
    """`POST /device/token`: ask whether somebody approved. Until then 400 with `error` as RFC 8628 names them."""

    device_code: Annotated[str, Field(min_length=1, max_length=200)]
    grant_type: Literal["urn:ietf:params:oauth:grant-type:device_code"] = "urn:ietf:params:oauth:grant-type:device_code"


class DeviceToken(Answer):
    """A personal token; nobody can read it again."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - a kind of token, and none itself
    expires_in: int
    scope: str
