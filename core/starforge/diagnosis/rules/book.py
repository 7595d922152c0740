"""All rules, in the order in which a line is compared with them: the more particular first."""

from typing import Final

from starforge.diagnosis.rule import Rule
from starforge.diagnosis.rules import (
    collectives,
    datasets,
    engines,
    gpu_memory,
    gpus,
    host_memory,
    network,
    packages,
    ray,
    settings,
    storage,
)

RULES: Final[tuple[Rule, ...]] = (
    *gpus.HARDWARE,
    *gpu_memory.RULES,
    *gpus.DRIVERS,
    *gpus.KERNELS,
    *host_memory.LIMITS,
    *host_memory.HOST_MEMORY,
    *collectives.RULES,
    *ray.RULES,
    *engines.RULES,
    *settings.CONFIGURATIONS,
    *packages.BINARIES,
    *packages.MODULES,
    *packages.VERSIONS,
    *network.HUB,
    *network.SERVICES,
    *datasets.RULES,
    *storage.DISKS,
    *storage.FILES,
    *settings.PROGRAMS,
    *settings.NATIVE,
    *settings.STOPS,
)
