"""Every sentence that is decided in one place and read in several, in English, by its code.

The pages' catalogs hold the same codes for other languages. A code stays what it is: ledgers keep it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starforge.said.acts import ACTS
from starforge.said.admission import ADMISSION
from starforge.said.exits import EXITS
from starforge.said.faults import FAULTS
from starforge.said.forms import FORMS
from starforge.said.kuberay import KUBERAY
from starforge.said.launches import LAUNCHES
from starforge.said.nodes import NODES
from starforge.said.progress import PROGRESS
from starforge.said.refusals import REFUSALS
from starforge.said.sign_ins import SIGN_INS
from starforge.said.slurm import SLURM
from starforge.said.vault import VAULT
from starforge.said.waits import WAITS

LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "list.and": " and ",
        "list.comma": ", ",
        "list.semicolon": "; ",
        "list.sentences": ". ",
    }
)
"""What stands between the parts of a list."""

MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **WAITS,
        **NODES,
        **PROGRESS,
        **EXITS,
        **ADMISSION,
        **REFUSALS,
        **FAULTS,
        **FORMS,
        **SIGN_INS,
        **ACTS,
        **SLURM,
        **LAUNCHES,
        **VAULT,
        **KUBERAY,
    }
)
"""The sentence of each code; what stands in braces is a value."""
