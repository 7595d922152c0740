"""Which names and values a user's secrets may have: each becomes a variable of the training process."""

import re
from typing import Final

from starforge.contract.bounds import MASKED_BYTES
from starforge.errors import InputError

NAME_PATTERN: Final = r"^[A-Z][A-Z0-9_]{0,63}$"
VALUE_BYTES: Final = 64 << 10
"""The longest value, in UTF-8."""
SECRETS_OF_A_USER: Final = 100
SECRETS_OF_A_JOB: Final = 32

_NAME: Final = re.compile(NAME_PATTERN)
_OURS: Final = "StarForge sets it for every job"
_LOADER: Final = "it changes which code the system's loader and C library run"
_PYTHON: Final = "it changes how Python starts, which the runner relies on"
_SHELL: Final = "it changes what every shell does"
_PLACES: Final = "it names a place or a user that programs of the image rely on"
_GPUS: Final = "it says which GPUs the job was given"
_TORCHRUN: Final = "it tells torchrun how the processes of the job find one another"

_PREFIXES: Final = {
    "FORGE_": _OURS,
    "LD_": _LOADER,
    "MALLOC_": _LOADER,
    "PYTHON": _PYTHON,
    "BASH_": _SHELL,
    "NVIDIA_": _GPUS,
    "CUDA_": _GPUS,
    "PET_": _TORCHRUN,
    "TORCHELASTIC_": _TORCHRUN,
    "TORCH_ELASTIC_": _TORCHRUN,
}
_WHOLE: Final = {
    **dict.fromkeys(("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "RES_OPTIONS", "HOSTALIASES"), _LOADER),
    **dict.fromkeys(("ENV", "IFS", "CDPATH", "GLOBIGNORE", "PS4", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT"), _SHELL),
    **dict.fromkeys(("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "TERM"), _PLACES),
    **dict.fromkeys(
        ("HF_HOME", "HF_HUB_OFFLINE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"), _OURS
    ),
    **dict.fromkeys(("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE"), _TORCHRUN),
    "LOCAL_WORLD_SIZE": _TORCHRUN,
}


def explain_refused_name(name: str) -> str:
    """Why no secret may have that name; an empty text for one that it may have. Pure."""
    if not _NAME.fullmatch(name):
        return "a name is an environment variable's: A-Z, digits and '_', 64 at most, a letter first"
    if name in _WHOLE:
        return _WHOLE[name]
    return next((f"{why} ({prefix}*)" for prefix, why in _PREFIXES.items() if name.startswith(prefix)), "")


def check_name(name: str) -> None:
    """Raises InputError for a name that no secret may have."""
    why = explain_refused_name(name)
    if why:
        raise InputError(f"no secret can be named {name!r:.80}", why=why, next_step="give it a name such as HF_TOKEN")


def check_value(name: str, value: str) -> None:
    """Raises InputError for what cannot be the value of an environment variable; never shows it."""
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise _refuse(name, "holds half of a surrogate pair, so that it is no text in UTF-8") from None
    if not size_bytes:
        raise _refuse(name, "is empty")
    if size_bytes > VALUE_BYTES:
        raise _refuse(name, f"has more than {VALUE_BYTES} bytes")
    if "\0" in value:
        raise _refuse(name, "holds a NUL character, which no variable can")


def describe_unmasked(name: str, value: str) -> str:
    """What the owner has to know of a value that is too short to be masked; an empty text for the others."""
    if len(value.encode()) >= MASKED_BYTES:
        return ""
    return f"{name} has fewer than {MASKED_BYTES} bytes: it will not be masked in logs"


def _refuse(name: str, fault: str) -> InputError:
    return InputError(f"the value of {name} {fault}", next_step="set it to a text of 1 byte to 64 KiB")
