"""How series, labels of nodes and rules of the settings belong together: pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.launch import PoolRequest
from starforge.errors import LaunchRefused
from starforge.hardware.series import matches
from starforge.said.sentence import say
from starforge_console.executors.kuberay.native import NativeNode
from starforge_console.executors.kuberay.settings import KubeSettings, SeriesRules, Toleration

PRODUCT: Final = "nvidia.com/gpu.product"
"""The label in which nodes tell what their GPUs are called; blanks of the name are dashes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How the series of a node is found. `series_of` gives the series of a GPU that is called so, or None."""

    rules: Mapping[str, SeriesRules]
    series_of: Callable[[str], str | None]

    def find_series(self, node: NativeNode) -> str | None:
        """As the settings' selectors say, else by the name that the node tells."""
        return self._find_named(node) or self._find_told(node)

    def list_products(self, nodes: Sequence[NativeNode]) -> dict[str, list[str]]:
        """What nodes that no selector names tell, by series."""
        found: dict[str, set[str]] = {}
        for node in nodes:
            series = None if self._find_named(node) else self._find_told(node)
            if series is not None:
                found.setdefault(series, set()).add(node.labels[PRODUCT])
        return {series: sorted(names) for series, names in sorted(found.items())}

    def _find_named(self, node: NativeNode) -> str | None:
        for series, rules in self.rules.items():
            if rules.node_selector and rules.node_selector.items() <= node.labels.items():
                return series
        return None

    def _find_told(self, node: NativeNode) -> str | None:
        product = node.labels.get(PRODUCT, "")
        return (self.series_of(product) or self.series_of(product.replace("-", " "))) if product else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where pods of a pool go: nodes of any one of `terms`, each a list of labels with the values that will do."""

    terms: tuple[Mapping[str, Sequence[str]], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


def place_pool(pool: PoolRequest, settings: KubeSettings, products: Mapping[str, Sequence[str]]) -> Placing:
    """The rules of the pool's series. Raises LaunchRefused where nothing in the cluster is known to be of it."""
    if not pool.gpus_per_node:
        return Placing(tolerations=settings.tolerations)
    # A taint of the GPUs' own name is there to keep away whoever needs none.
    tolerations = (*settings.tolerations, Toleration(key=settings.gpu_resource, operator="Exists"))
    if pool.series is None:
        return Placing(tolerations=tolerations)
    rules = [one for series, one in settings.series.items() if matches(pool.series, series)]
    told = sorted({name for series, names in products.items() if matches(pool.series, series) for name in names})
    terms: list[Mapping[str, Sequence[str]]] = [
        {key: (value,) for key, value in one.node_selector.items()} for one in rules if one.node_selector
    ]
    terms += [{PRODUCT: told}] if told else []
    if not terms:
        raise LaunchRefused(
            say("kuberay.no_series", series=pool.series),
            why=say("kuberay.no_series_why", label=PRODUCT),
            next_step=say("kuberay.no_series_next"),
        )
    own = tuple(toleration for one in rules for toleration in one.tolerations)
    return Placing(terms=tuple(terms), tolerations=(*tolerations, *own))
