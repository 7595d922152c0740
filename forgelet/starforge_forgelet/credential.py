"""What proves this machine to its console, and lets its console in: a pair that is whole or of no use."""

import ssl
from collections.abc import Callable

from starforge.errors import ProjectError
from starforge.trust.contexts import build_server_context
from starforge.trust.signatures import Signer
from starforge_forgelet.state import NodeIdentity, NodeState


def load_credential(
    state: NodeState, identity: NodeIdentity, refused: Callable[[str], None] | None = None
) -> tuple[Signer, ssl.SSLContext]:
    """What signs heartbeats, and the context that lets the console in; `refused` as in `build_server_context`.

    Raises:
        ProjectError: one of the files is damaged.

    """
    try:
        return Signer(state.load_pem()), build_server_context(state.key_file, identity.console_certificate, refused)
    except (OSError, ValueError, TypeError, ProjectError) as error:
        raise ProjectError(
            f"{state.key_file}, or the console's certificate beside it, cannot be used",
            why=str(error),
            next_step="join again",
        ) from error
