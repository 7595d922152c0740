"""Compares the image with what the plan needs: Python, distributions and their versions, visible GPUs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, List, Mapping, Optional

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal

if TYPE_CHECKING:
    from importlib.metadata import Distribution


def refuse_unfit_image(needs: contract.Requirements, environment: Mapping[str, str]) -> None:
    """Return when the image fits. Raises Refusal with EXIT_REQUIREMENTS that names everything that does not."""
    problems = [_find_python_problem(needs.python)]
    if needs.modules:
        path = _find_search_path(environment)
        problems += [_find_module_problem(need, path) for need in needs.modules]
    if needs.gpus is not None:
        problems.append(_find_gpu_problem(needs.gpus))
    said = [problem for problem in problems if problem]
    if said:
        text = "; ".join(said) + ". Choose an image that has it, or a version of the recipe made for this image"
        raise Refusal(contract.EXIT_REQUIREMENTS, "requirements", text)


def _find_python_problem(specifier: str) -> Optional[str]:
    if not specifier:
        return None
    from starforge.runner.versions import is_in_range  # noqa: PLC0415 - only a plan with ranges pays for it

    found = "{}.{}.{}".format(*sys.version_info[:3])
    if is_in_range(found, specifier):
        return None
    return f"needs Python {specifier}; this image has {found} at {sys.executable}"


def _find_module_problem(need: contract.Requirement, path: List[str]) -> Optional[str]:
    from starforge.runner.versions import RangeError, is_in_range  # noqa: PLC0415 - see above

    wanted = f"{need.module} {need.specifier}".rstrip()
    distribution = _find_distribution(need.module, path)
    if distribution is None:
        return f"needs {wanted}; this image has no {need.module} for the Python at {sys.executable}"
    version, place = distribution.version, distribution.locate_file("")
    try:
        fits = is_in_range(version, need.specifier)
    except RangeError as error:
        return f"needs {wanted}; this image has {version} at {place}, which cannot be compared ({error})"
    return None if fits else f"needs {wanted}; this image has {version} at {place}"


def _find_gpu_problem(wanted: int) -> Optional[str]:
    from starforge.runner.gpus import Nvml, find_visible_gpus  # noqa: PLC0415 - most plans do not ask

    found = find_visible_gpus(Nvml())
    return None if found >= wanted else f"needs {wanted} visible GPUs; this container sees {found}"


def _find_search_path(environment: Mapping[str, str]) -> List[str]:
    """Give where the training process will look for modules. The runner itself is isolated from these settings."""
    import site  # noqa: PLC0415 - only a plan that names modules pays for the image's site packages

    site.main()
    own = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    user = [] if sys.prefix != sys.base_prefix else [site.getusersitepackages()]
    return own + user + sys.path


def _find_distribution(name: str, path: List[str]) -> Optional[Distribution]:
    from importlib.metadata import Distribution  # noqa: PLC0415 - slow to import, see above

    for spelling in (name, name.replace("-", "_"), name.replace("_", "-")):
        for distribution in Distribution.discover(name=spelling, path=path):
            if distribution.version:
                return distribution
    return None
