"""Ask the engine what the listing does not tell of a container: exit codes, digests, starts that the init refused."""

import time
from dataclasses import replace

from starforge.containers.engine import Document, Engine, EngineError
from starforge.containers.failures import find_init_refusal
from starforge.containers.images import Images
from starforge.containers.labels import Claim, State
from starforge.containers.logs import read_logs
from starforge.containers.seeing import build_observation, needs_inspection
from starforge.contract.observation import Failure, NoSignal, Observation, Seen
from starforge.errors import BackendUnreachable

_INIT_REFUSED = frozenset({126, 127})


class Inspector:
    """Looks closely at one container at a time. What cannot change any more is asked once."""

    def __init__(self, engine: Engine, images: Images, node: str) -> None:
        self._engine = engine
        self._images = images
        self._node = node
        self._refusals: dict[str, str] = {}

    def see(self, claim: Claim, engine_started_at: float | None) -> Observation:
        """What became of the attempt in this container; NoSignal when the engine does not tell."""
        try:
            inspected = self._engine.inspect(claim.container) if needs_inspection(claim) else None
            seen = build_observation(claim, inspected, self._node, time.time(), engine_started_at)
            if not isinstance(seen, Seen):
                return seen
            digest = self._images.find_digest(claim.image_id, claim.image) if claim.image_id else None
            refusal = self._find_refusal(claim, inspected)
        except (BackendUnreachable, EngineError) as error:
            return NoSignal(reason=str(error))
        if refusal:
            return replace(seen, exit=None, failure=Failure.START_FAILED, note=refusal)
        return replace(seen, image_digest=digest)

    def _find_refusal(self, claim: Claim, inspected: Document | None) -> str:
        """The engine starts its own init, which then fails to start bash: an exit code that a job may have too."""
        if claim.state != State.EXITED or not inspected or inspected["State"].get("ExitCode") not in _INIT_REFUSED:
            return ""
        if claim.container not in self._refusals:
            first = next(read_logs(self._engine, claim.container, None), None)
            self._refusals[claim.container] = find_init_refusal(first.content if first else b"")
        return self._refusals[claim.container]
