"""A made-up machine with a real key: it joins, takes epochs and sends heartbeats as its daemon would."""

import base64
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from starforge.contract.executor import GpuState, GpuView, NodeView
from starforge.contract.ids import AttemptId
from starforge.contract.registration import (
    EPOCH_PURPOSE,
    HEARTBEAT_PURPOSE,
    REJOIN_PURPOSE,
    EpochRequest,
    Fenced,
    JoinAnswer,
    JoinRequest,
    Superseded,
    signed_bytes,
)
from starforge.contract.wire import NodeReport, encode
from starforge.trust.certificates import make_identity
from starforge.trust.signatures import Signer
from starforge_console.fleets.proofs import SignedBody
from starforge_console.fleets.registration import Registration

INSTALL = "install1"
H200 = "NVIDIA H200"


def build_gpu(index: int, name: str = H200, attempt: str | None = None) -> GpuView:
    return GpuView(
        uuid=f"GPU-{index}",
        index=index,
        name=name,
        series=None,
        memory_bytes=1 << 37,
        state=GpuState.FREE if attempt is None else GpuState.HELD,
        attempt=None if attempt is None else AttemptId(attempt),
    )


def build_view(*gpus: GpuView, held: Mapping[AttemptId, tuple[float, int]] | None = None) -> NodeView:
    return NodeView(name="told by itself", gpus=gpus, cpus=64.0, memory_bytes=1 << 39, held=held or {})


@dataclass
class Machine:
    """One machine and the state directory of its daemon; `copy` makes a second one from it."""

    hostname: str = "gpu7.example.org"
    advertise: str = "10.0.0.7:7070"
    pem: str = field(default_factory=lambda: make_identity("gpu7").pem, repr=False)
    name: str = ""
    fleet: str = "gpu"
    epoch: int = 0
    nonce: str = ""
    asked: int = 0
    counter: int = 0
    fence: int = 0
    view: NodeView | None = field(default_factory=lambda: build_view(build_gpu(0), build_gpu(1)))
    attempts: dict[str, str] = field(default_factory=dict)
    at: float = 0.0

    @property
    def certificate(self) -> str:
        return self.pem[self.pem.index("-----BEGIN CERTIFICATE-----") :]

    def copy(self) -> "Machine":
        return copy.deepcopy(self)

    def build_join(self, token: str = "", **changes: object) -> JoinRequest:
        values: dict[str, object] = {
            "token": token,
            "fleet": self.fleet,
            "hostname": self.hostname,
            "advertise": self.advertise,
            "certificate": self.certificate,
            "version": "0.1.0",
            "architecture": "x86_64",
            "gpus": (H200,),
        }
        return JoinRequest(**{**values, **changes})  # type: ignore[arg-type]  # a test's own values

    async def join(self, registration: Registration, token: str, peer: str = "10.0.0.7") -> JoinAnswer:
        answer = await registration.join(self.build_join(token), peer)
        self.name, self.fence = answer.node, answer.fence
        return answer

    def build_rejoin(self, pem: str, token: str = "", install: str = INSTALL) -> JoinRequest:
        certificate = pem[pem.index("-----BEGIN CERTIFICATE-----") :]
        message = signed_bytes(REJOIN_PURPOSE, install, self.name, (0, 0), certificate.encode())
        proof = base64.b64encode(Signer(self.pem).sign(message)).decode()
        return self.build_join(token, certificate=certificate, rejoin=self.name, rejoin_proof=proof)

    def sign(self, purpose: bytes, numbers: tuple[int, int], body: bytes) -> SignedBody:
        signature = Signer(self.pem).sign(signed_bytes(purpose, INSTALL, self.name, numbers, body))
        return SignedBody(epoch=numbers[0], counter=numbers[1], signature=signature, body=body)

    def build_question(self) -> SignedBody:
        """The question for the next epoch: kept before it is asked, so that a lost answer is given again."""
        if not self.nonce:
            self.asked += 1
            self.nonce = f"{self.name}-{id(self)}-{self.asked}".ljust(32, "0")
        return self.sign(EPOCH_PURPOSE, (self.epoch, 0), encode(EpochRequest(have=self.epoch, nonce=self.nonce)))

    async def take_epoch(self, registration: Registration) -> int | None:
        """The epoch that it serves in now; None when it is superseded."""
        answer = await registration.take_epoch(self.name, self.build_question())
        if isinstance(answer, Superseded):
            return None
        self.epoch, self.nonce, self.counter = answer.epoch, "", 0
        return answer.epoch

    def build_report(self) -> NodeReport:
        return NodeReport(
            node=self.name,
            install=INSTALL,
            version="0.1.0",
            view=self.view,
            view_unknown="" if self.view else "its engine does not answer",
            attempts={AttemptId(attempt): phase for attempt, phase in self.attempts.items()},
            boot="boot-1",
            epoch=self.epoch,
            fence=self.fence,
            at=self.at,
        )

    def build_beat(self) -> SignedBody:
        self.counter += 1
        return self.sign(HEARTBEAT_PURPOSE, (self.epoch, self.counter), encode(self.build_report()))

    async def beat(self, registration: Registration) -> object:
        """Send a heartbeat; told to clean up, it does and keeps the fence number."""
        answer = await registration.beat(self.name, self.build_beat())
        if isinstance(answer, Fenced):
            self.fence = answer.fence
            for attempt in answer.remove:
                self.attempts.pop(attempt, None)
        return answer
