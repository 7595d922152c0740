"""Checks that the capsule is the one the console prepared."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Callable, Optional

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal
from starforge.runner.plainfiles import open_plain

_CHUNK_BYTES = 1 << 20


def load_capsule(directory: str, digest: Optional[str]) -> contract.Capsule:
    """Check every file of the capsule against SHA256SUMS, and that against `digest`, then read capsule.json.

    Raises Refusal with EXIT_CAPSULE_CHANGED, naming the file that differs. Without a digest only the sums are checked.
    """
    sums_path = os.path.join(directory, contract.SUMS_FILE)
    try:
        if digest is not None and hash_file(sums_path, follows_link=True) != digest.rpartition(":")[2]:
            raise _changed(f"{contract.SUMS_FILE} is not the one that was launched")
        with open(sums_path, encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(None, 1) for line in file if line.strip()]
        for expected, name in rows:
            if hash_file(os.path.join(directory, name.lstrip("*")), follows_link=True) != expected:
                raise _changed(f"{name.lstrip('*')} differs from its digest")
        with open(os.path.join(directory, contract.CAPSULE_FILE), encoding="utf-8") as file:
            return contract.Capsule.from_json(json.load(file))
    except (OSError, ValueError) as error:
        raise _changed(str(error)) from error


def hash_file(path: str, *, follows_link: bool = False, check: Optional[Callable[[], None]] = None) -> str:
    """Give a plain file's sha256 in hex. Raises OSError. Only what the console prepared may lie behind a link.

    `check` is called before each piece and may raise.
    """
    digest = hashlib.sha256()
    with open(open_plain(path, follows_link=follows_link), "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            if check is not None:
                check()
            digest.update(chunk)
    return digest.hexdigest()


def _changed(what: str) -> Refusal:
    return Refusal(
        contract.EXIT_CAPSULE_CHANGED,
        "capsule_changed",
        f"the capsule was changed after it was prepared: {what}; retry the job, and check who can write to the storage",
    )
