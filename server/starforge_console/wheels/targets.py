"""Which machines forgelet is installed on, as far as wheels differ: the Python and the architecture. Pure."""

import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.tags import Tag, compatible_tags, cpython_tags

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
ARCHITECTURES: Final = ("x86_64", "aarch64")
NEWEST_GLIBC: Final = 28
"""Minor version of the glibc 2 that machines have at least: a wheel that needs a newer one is not taken."""

_OLDEST_GLIBC: Final = 17
_OLD_X86_GLIBC: Final = 5
_OLD_NAMES: Final = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of machine."""

    python: str
    arch: str

    @property
    def tag(self) -> str:
        """How addresses name it: `cp311-x86_64`."""
        return f"cp{self.python.replace('.', '')}-{self.arch}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags of wheels that run there, the most particular first."""
        return tuple(_list_platforms(self.arch))

    def list_tags(self) -> list[Tag]:
        """Every tag of a wheel that runs there, the best one first."""
        version = tuple(int(part) for part in self.python.split("."))
        interpreter = f"cp{self.python.replace('.', '')}"
        own = cpython_tags(version, abis=[interpreter], platforms=self.platforms)
        return [*own, *compatible_tags(version, interpreter, self.platforms)]

    def build_environment(self) -> Mapping[str, str]:
        """What the markers of requirements see there."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.99",
            "os_name": "posix",
            "platform_machine": self.arch,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.99",
            "python_version": self.python,
            "sys_platform": "linux",
        }


TARGETS: Final = tuple(Target(python, arch) for python in PYTHONS for arch in ARCHITECTURES)


def find_target(tag: str) -> Target | None:
    """The target that `tag` names."""
    return next((target for target in TARGETS if target.tag == tag), None)


def own_target() -> Target:
    """This machine's."""
    return Target(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())


def _list_platforms(arch: str) -> Iterator[str]:
    oldest = _OLD_X86_GLIBC if arch == "x86_64" else _OLDEST_GLIBC
    for minor in range(NEWEST_GLIBC, oldest - 1, -1):
        yield f"manylinux_2_{minor}_{arch}"
        if minor in _OLD_NAMES:
            yield f"{_OLD_NAMES[minor]}_{arch}"
    yield f"linux_{arch}"
