"""What several adapters do alike: the launcher, the model, data under plain names, files of the experiment. Pure."""

import posixpath
from collections.abc import Sequence
from typing import Final, NamedTuple

from starforge.contract.canonical import Json
from starforge.contract.capsule import PLACE_PYTHON, PLACE_WORK
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.settings_file import list_option

DATA_FOLDER: Final = "starforge-run/data"
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_HERE: Final = "./"


class PlacedData(NamedTuple):
    """The data as the framework is to read it, and the links in the work directory that make it so."""

    train: str
    validation: str | None
    links: dict[str, str]


def count_gpus(inputs: PlanInputs) -> int:
    """The GPUs of each node.

    Raises:
        LaunchRefused: there are none.

    """
    if inputs.gpus_per_node == 0:
        raise LaunchRefused(
            f"{inputs.recipe.name} runs on GPUs alone", next_step="choose a profile that has some, such as any:1"
        )
    return inputs.gpus_per_node


def build_torchrun(inputs: PlanInputs, gpus: int) -> tuple[str, ...]:
    """The recipe's module under torchrun, a process a GPU.

    Raises:
        LaunchRefused: the job has several nodes.

    """
    if inputs.nodes > 1:
        raise LaunchRefused(f"{inputs.recipe.name} trains on one node", next_step="choose a profile of one node")
    # torchrun finds a free port, so that two jobs of one machine do not meet; DeepSpeed's own launcher does not.
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(gpus))
    return (PLACE_PYTHON, *launcher, "-m", inputs.recipe.entry.value)


def find_model(inputs: PlanInputs) -> str:
    """The checkpoint to start from, else the model.

    Raises:
        LaunchRefused: neither is named.

    """
    model = inputs.paths.start or inputs.paths.model
    if model is None:
        raise LaunchRefused(f"{inputs.recipe.name} has no model to train", next_step="name one under model:")
    return model


def place_data(inputs: PlanInputs, suffixes: Sequence[str]) -> PlacedData:
    """Training and validation data under plain names: a comma or an `@` in a path means something to some frameworks.

    A file keeps its ending, which says its format; what ends otherwise is taken for a folder.

    Raises:
        LaunchRefused: no training data is named.

    """
    train, validation = inputs.paths.train, inputs.paths.validation
    if train is None:
        raise LaunchRefused(f"{inputs.recipe.name} has no data to train on", next_step="name it under data.train")
    given = {"train": train} | ({"validation": validation} if validation is not None else {})
    links = {f"{DATA_FOLDER}/{name}{find_suffix(path, suffixes)}": path for name, path in given.items()}
    placed = [f"{PLACE_WORK}/{link}" for link in links]
    return PlacedData(placed[0], placed[1] if validation is not None else None, links)


def find_suffix(path: str, suffixes: Sequence[str]) -> str:
    """The ending of a data file, among `suffixes`; empty for anything else."""
    return next((suffix for suffix in suffixes if posixpath.basename(path).endswith(suffix)), "")


def locate_own(inputs: PlanInputs, path: str) -> str:
    """A path that begins with `./` counts from the experiment's folder, wherever the process that opens it stands."""
    return f"{locate_folder(inputs)}/{path.removeprefix(_HERE)}" if path.startswith(_HERE) else path


def list_own_files(inputs: PlanInputs) -> dict[str, Json]:
    """The settings that name files of the experiment (the recipe's option `files`), by path, each a whole path."""
    paths = {parameter.name: parameter.path for parameter in inputs.recipe.parameters}
    given = {name: inputs.settings.get(name) for name in list_option(inputs.recipe, "files") if isinstance(name, str)}
    return {paths[name]: locate_own(inputs, value) for name, value in given.items() if isinstance(value, str)}


def locate_folder(inputs: PlanInputs) -> str:
    """The experiment's folder, whole: what lies there can be imported by the processes that Ray starts elsewhere."""
    return PLACE_WORK if inputs.folder == "." else f"{PLACE_WORK}/{inputs.folder}"
