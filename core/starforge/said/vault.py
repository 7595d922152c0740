"""Why what users and administrators have sealed here cannot be sealed or opened now."""

from typing import Final

VAULT: Final = {
    "vault.broken": "a secret that is kept here cannot be opened",
    "vault.broken_next": "have the administrator put {file} back from a copy, or set the secret again",
    "vault.given_up": "it was given up when its key was lost",
    "vault.no_key": "{file} is gone",
    "vault.other_key": "the key in {file} is not the one it was sealed with",
    "vault.lost": "the console seals nothing now",
    "vault.lost_why": "{why}, and it keeps {values} sealed that only the old key opens",
    "vault.value": "{n} value",
    "vault.values": "{n} values",
    "vault.lost_key": "the key in {file} is another one",
    "vault.lost_next": (
        "have the administrator put {file} back from a copy, or, if it is lost for good, run '{command}' on the"
        " console's machine"
    ),
    "vault.unusable": "the key {file} cannot be used",
    "vault.unusable_bytes": "it holds {n} bytes, not a key of {wanted}",
    "vault.unusable_next": ("put it back from a copy; if it is lost for good, remove the file and run '{command}'"),
}
"""By code."""
