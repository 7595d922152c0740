"""The gates in the order in which they are asked; a new gate is a file and a place in this tuple."""

from typing import Final

from starforge_console.admission.account import AccountGate
from starforge_console.admission.backend import BackendGate
from starforge_console.admission.catalog import CatalogGate
from starforge_console.admission.gate import Gate
from starforge_console.admission.huggingface import HuggingFaceGate
from starforge_console.admission.image import ImageGate
from starforge_console.admission.inputs import InputsGate
from starforge_console.admission.max_runtime import MaxRuntimeGate
from starforge_console.admission.provenance import ProvenanceGate
from starforge_console.admission.quota import QuotaGate
from starforge_console.admission.topology import TopologyGate
from starforge_console.admission.windows import WindowsGate

GATES: Final[tuple[Gate, ...]] = (
    AccountGate(),
    CatalogGate(),
    ProvenanceGate(),
    TopologyGate(),
    BackendGate(),
    MaxRuntimeGate(),
    QuotaGate(),
    WindowsGate(),
    ImageGate(),
    InputsGate(),
    HuggingFaceGate(),
)
