"""Folders in which machines try the storage as the jobs' user, made as those of an attempt are."""

from dataclasses import dataclass
from typing import Final

from starforge.containers.settings import StorageMark
from starforge.containers.storage import StorageCheck
from starforge.contract.launch import IMAGE_USER, parse_user
from starforge.errors import NodeFault
from starforge_console.assembly.capsule import make_folders, make_own_folders

TRIALS: Final = ".starforge-trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Whom jobs run as, the folder that was made for that user, and why it was not; empty text: it was."""

    user: str
    folder: str
    trouble: str = ""


def prepare_trial(storage: StorageMark, user: str) -> Trial:
    """Make the folder of `user` (`uid:gid`, or `image`) unless it is there; what goes wrong is for the machine to say.

    A share that is not mounted here gets no folder: it would lie on this machine's own disk.
    """
    folder = storage.root / TRIALS / user.replace(":", "-")
    trouble = StorageCheck(storage).find_trouble()
    if not trouble:
        try:
            make_own_folders((folder.parent,))
            make_folders((folder,), None if user == IMAGE_USER else parse_user(user))
        except NodeFault as error:
            trouble = f"{error.what}: {error.why}"
        except OSError as error:
            trouble = f"{folder} was not made: {error.strerror}"
    return Trial(user=user, folder=str(folder), trouble=trouble)
