"""The attempt's ports on the host's network: which variables name them, and whether they are free.

Elsewhere the attempt has a network of its own, where every program's usual port is free: nothing is set there.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Dict, Mapping, Optional, Tuple

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal

if TYPE_CHECKING:
    import socket

_MOST_PORT = 65535


def build_port_settings(plan: contract.Plan, environment: Mapping[str, str]) -> Dict[str, str]:
    """Give each variable of the plan its port of the attempt's block; nothing without a block. Raises Refusal."""
    text = environment.get(contract.ENV_PORT_BASE)
    if not text:
        return {}
    last = max(plan.ports.values(), default=0)
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= _MOST_PORT - last:
        problem = f"{contract.ENV_PORT_BASE} is {text!r}, which is no port with {last} more above it"
        raise Refusal(contract.EXIT_REQUIREMENTS, "start_failed", problem)
    return {name: str(int(text) + offset) for name, offset in plan.ports.items()}


def require_free(settings: Mapping[str, str]) -> None:
    """Look whether every port can be listened on. Raises Refusal, naming each that is taken."""
    taken = [f"{port} ({name})" for name, port in sorted(settings.items()) if not _is_free(int(port))]
    if not taken:
        return
    text = (
        f"port {', '.join(taken)} of the machine is taken by another program, and the job was to listen there:"
        " find it on the machine with 'ss -ltnp', or give the fleet's jobs a network of their own (bridge)"
    )
    raise Refusal(contract.EXIT_PORT_TAKEN, "port_taken", text)


def _is_free(port: int) -> bool:
    import socket  # noqa: PLC0415 - a start without ports of its own does not pay for it

    families = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104 - tried, and closed at once
    return all(_can_bind(family, address, port) for family, address in families)


def _can_bind(family: int, address: str, port: int) -> bool:
    import socket  # noqa: PLC0415 - see above

    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return True  # a kernel without this family has no listener of it
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a job before left waiting is in nobody's way
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        error = _find_error(probe, (address, port))
    return error != errno.EADDRINUSE


def _find_error(probe: socket.socket, address: Tuple[str, int]) -> Optional[int]:
    try:
        probe.bind(address)
    except OSError as error:
        return error.errno
    return None
