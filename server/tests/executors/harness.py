"""What the conformance suite asks of whoever runs it: a backend whose bad moments can be called up."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from starforge.contract.executor import Executor
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Phase, Seen


class HeldLaunch(Protocol):
    """A launch that is on its way and has not taken effect yet."""

    async def let_pass(self) -> None:
        """Let it arrive; returns when whatever it does is done. Its errors do not matter."""


class Harness(Protocol):
    """One executor and the switches of its backend. GPUs: exactly `total_gpus`, all free at the start."""

    total_gpus: int

    @property
    def executor(self) -> Executor:
        """The executor as it is now; another object after `restart`."""

    def make_request(self, *, gpus: int = 1, secret: str = "") -> LaunchRequest:
        """A new attempt that runs until `finish`; with a `secret` it has one of that value."""

    async def finish(self, request: LaunchRequest, code: int) -> None:
        """Let the attempt end by itself with `code`."""

    async def settle(self, attempt: AttemptId, phase: Phase) -> Seen:
        """What is seen of it once it is at `phase`."""

    def lose_next_launch_reply(self) -> None:
        """The next launch takes effect and its caller learns nothing."""

    async def hold_next_launch(self, launch: Callable[[], Awaitable[None]]) -> HeldLaunch:
        """Call `launch`, which must stay on its way before it has taken effect."""

    def make_unreachable(self) -> None:
        """The backend does not answer until `make_reachable`."""

    def make_reachable(self) -> None:
        """It answers again."""

    async def restart(self) -> None:
        """Console, daemon and engine start anew; what ran goes on."""

    def count_starts(self, attempt: AttemptId) -> int:
        """How often the attempt was really started."""

    def read_visible(self, attempt: AttemptId) -> str:
        """All that people and tools can see of it at the backend: labels, environment, argv, states."""
