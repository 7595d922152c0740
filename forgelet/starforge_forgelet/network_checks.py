"""Checks of addresses: ingest as seen from this machine, and this machine as seen from the console."""

import errno
import socket
import time
from typing import Final
from urllib.parse import urlsplit

from starforge.containers.spec import OWN_NAME
from starforge_forgelet.findings import Finding, failed, passed, warned
from starforge_forgelet.state import NodeIdentity, Pulse

_TIMEOUT_S: Final = 5.0
_STALE_S: Final = 60.0
_ADVICE: Final = {
    errno.ECONNREFUSED: "nothing listens there, or a firewall refuses: is the console running?",
    errno.EHOSTUNREACH: "no route or a firewall: check the address and the way there",
    errno.ENETUNREACH: "no route: check the address and the way there",
}
_REJOIN: Final = "a new address is taken when the machine joins again: 'forgelet join', or FORGE_REJOIN=1 before 'sh'"


def check_ingest(identity: NodeIdentity) -> Finding:
    """Whether ingest answers from here. Containers may still have another way to it, or none.

    Jobs run without it, and what they print is read from the storage later: it keeps no machine from being installed.
    """
    host, port = find_endpoint(identity.ingest_url)
    own = host == OWN_NAME
    try:
        socket.create_connection(("127.0.0.1" if own else host, port), _TIMEOUT_S).close()
    except OSError as error:
        why = f"{identity.ingest_url}: {error.strerror or error}"
        if own:
            advice = f"{OWN_NAME} is each machine itself: on the console set FORGE_INGEST_URL to an address of its own"
            return warned("ingest", f"{why} on this machine", f"{advice}; {_REJOIN}")
        advice = _ADVICE.get(error.errno or 0, "check FORGE_INGEST_URL on the console")
        return warned("ingest", why, f"{advice}; {_REJOIN}")
    return passed("ingest", f"{identity.ingest_url} answers")


def check_port(identity: NodeIdentity, pulse: Pulse | None, port: int, *, lenient: bool = False) -> Finding:
    """Whether the console reaches the daemon, as it last said; before that, whether the port is there to be taken.

    `lenient`: a console that does not reach it is a warning alone, for another version could do nothing about it.
    """
    if pulse is not None and pulse.heard_at is not None and abs(time.time() - pulse.heard_at) < _STALE_S:
        if pulse.reachable:
            return passed("port", f"the console reaches {identity.advertise}")
        advice = f"open port {port} for the console, or join again with --advertise"
        return (warned if lenient else failed)("port", pulse.trouble, advice)
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return failed("port", f"{port}: {error.strerror}", "choose another port")
        message = f"something listens on port {port}, and no heartbeat of a daemon was heard of late"
        return failed(
            "port", message, "end what listens there or choose another port; a daemon's log says what it lacks"
        )
    return passed("port", f"port {port} is free for the daemon, which the console will call at {identity.advertise}")


def find_endpoint(url: str) -> tuple[str, int]:
    """Host and port of an address."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
