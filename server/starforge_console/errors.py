"""Every error of the console's own, arranged by what the caller can do about it, and the HTTP status of each.

The tree of `starforge.errors` is the trunk; these are the console's branches.

StarForgeError
├── InputError
│   ├── SettingsError        mend the console's settings, then start again
│   ├── BlobRefused          send the bytes that the digest names
│   ├── TooLarge             send less
│   └── EncodingRefused      send it in an encoding that is named
├── Refused
│   ├── AdmissionRefused     every gate's refusals at once: mend the submission
│   ├── ProviderRefused      begin the sign-in anew; if it stays so, its administrator must look
│   ├── Forbidden            ask somebody with the role or scope it takes
│   ├── TokenRefused         (SignInRequired) get a new token
│   ├── NotTheNode           (SignInRequired) run 'forgelet join' on the machine again
│   ├── StreamGap            (Conflict) send again from `received_to`
│   ├── SealBroken           (Conflict) set the secret again
│   └── StreamClosed         stop sending; what was spooled is the record
└── Unavailable
    ├── LedgerBusy           (Busy) too many writes wait: repeat after `retry_after_s`
    ├── LedgerFailed         the ledger's disk refused: its administrator must look
    └── VaultUnusable        the key of the vault cannot be read: its administrator must look
        └── VaultKeyLost     it is gone or another one: put it back, or give up what it sealed
"""

from typing import Final

from starforge.contract.api import RefusalView
from starforge.errors import (
    BackendUnreachable,
    Bug,
    Busy,
    ClientTooOld,
    CodeExpired,
    Conflict,
    InputError,
    LaunchError,
    NotFound,
    Refused,
    SignInDenied,
    SignInPending,
    SignInRequired,
    StarForgeError,
    Unavailable,
)


class SettingsError(InputError):
    """The console cannot start with these settings."""

    code = "settings_invalid"


class BlobRefused(InputError):
    """The bytes that were sent are not those that the digest names."""

    code = "blob_refused"


class OffsetRefused(Conflict):
    """An upload was to go on where the console has nothing of it."""

    code = "upload_offset"


class TooLarge(InputError):
    """More was sent than the console takes."""

    code = "too_large"


class EncodingRefused(InputError):
    """The body came in a Content-Encoding that is not taken here."""

    code = "encoding_refused"


class AdmissionRefused(Refused):
    """At least one gate refused; `refusals` holds every reason."""

    code = "admission_refused"

    def __init__(self, refusals: tuple[RefusalView, ...]) -> None:
        gates = ", ".join(dict.fromkeys(refusal.gate or "?" for refusal in refusals))
        super().__init__(f"the submission was refused by: {gates}", next_step="mend what is listed and submit again")
        self.refusals = refusals


class Forbidden(Refused):
    """The caller is known and may not do this."""

    code = "forbidden"


class ProviderRefused(Refused):
    """The identity provider did not sign somebody in, or what it says cannot be taken."""

    code = "provider_refused"


class TokenRefused(SignInRequired):
    """The token is unknown, expired or revoked."""

    code = "token_refused"


class NotTheNode(SignInRequired):
    """The signature is not that of the node's key."""

    code = "node_signature_refused"


class StreamGap(Conflict):
    """Bytes are missing before the ones that were sent, or were already there: go on from `received_to`."""

    code = "stream_gap"

    def __init__(self, received_to: int) -> None:
        super().__init__(f"this stream is received to byte {received_to}", next_step="send on from there")
        self.received_to = received_to


class SealBroken(Conflict):
    """What was sealed cannot be opened any more: its key is gone, or another one."""

    code = "seal_broken"


class StreamClosed(Refused):
    """This attempt no longer reports: it ended, was fenced or its token ran out."""

    code = "stream_closed"


class LedgerBusy(Busy):
    """The ledger's queue of writes is full."""

    code = "ledger_busy"


class LedgerFailed(Unavailable):
    """The ledger could not commit or be read. What it says tells whether anything was kept: most often nothing was."""

    code = "ledger_failed"


class VaultUnusable(Unavailable):
    """The key of the vault cannot be read or made."""

    code = "vault_unusable"


class VaultKeyLost(VaultUnusable):
    """The key that sealed what is kept is gone or another one, so that nothing is sealed for now."""

    code = "vault_key_lost"


HTTP_STATUS: Final[dict[type[StarForgeError], int]] = {
    StreamClosed: 410,
    AdmissionRefused: 422,
    Forbidden: 403,
    SignInRequired: 401,
    NotFound: 404,
    ClientTooOld: 426,
    SignInPending: 400,
    SignInDenied: 400,
    CodeExpired: 400,
    Conflict: 409,
    Refused: 403,
    TooLarge: 413,
    EncodingRefused: 415,
    InputError: 422,
    Busy: 429,
    BackendUnreachable: 502,
    Unavailable: 503,
    LaunchError: 503,
    Bug: 500,
}
"""The status of each error; of several that fit, the nearest class decides."""


def status_of(error: StarForgeError) -> int:
    """The HTTP status that says what the caller can do about `error`."""
    for kind in type(error).__mro__:
        if kind in HTTP_STATUS:
            return HTTP_STATUS[kind]
    return 500
