"""Signing in by a code that somebody approves on the console's page."""

import time
from collections.abc import Callable

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.device import BeginDevice, DeviceBegun, DeviceToken, PollDevice
from starforge.errors import BackendUnreachable, Busy, CodeExpired, SignInPending, SlowDown, Unavailable

_SLOWER_S = 5.0
_LONGEST_PAUSE_S = 60.0


class DeviceConsole(Console):
    """The console as whoever has no token yet speaks to it."""

    def begin(self, client: str) -> DeviceBegun:
        """Begin to sign in; `client` is what the page says of who asks."""
        wanted = BeginDevice(client_id=client).model_dump(mode="json")
        return self._send(DeviceBegun, Request(method="POST", path="/device/code", json=wanted, repeatable=False))

    def poll(self, begun: DeviceBegun) -> DeviceToken:
        """The token, once somebody approved. Raises SignInPending, SlowDown, SignInDenied, CodeExpired."""
        wanted = PollDevice(device_code=begun.device_code).model_dump(mode="json")
        return self._send(DeviceToken, Request(method="POST", path="/device/token", json=wanted, repeatable=False))

    def wait(
        self,
        begun: DeviceBegun,
        pause: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> DeviceToken:
        """The token; asks at the console's interval, slower where it says so, and goes on while it is away.

        Raises:
            SignInDenied: somebody said no.
            CodeExpired: nobody approved in time.

        """
        interval_s, deadline = begun.interval, monotonic() + begun.expires_in
        while monotonic() < deadline:
            pause(interval_s)
            try:
                return self.poll(begun)
            except SlowDown:
                interval_s = min(_LONGEST_PAUSE_S, interval_s + _SLOWER_S)
            except SignInPending:
                continue
            except Busy as error:
                interval_s = min(_LONGEST_PAUSE_S, max(interval_s, error.retry_after_s))
            except (BackendUnreachable, Unavailable):  # the code outlives a restart of the console
                continue
        raise CodeExpired("nobody approved the sign-in in time", next_step="run 'sf login' again")
