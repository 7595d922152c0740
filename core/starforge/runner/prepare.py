"""Lays out what the training process finds: its files, links, environment, secrets and the checkpoint to go on from."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from starforge.contract import capsule as contract
from starforge.runner.endings import Refusal
from starforge.runner.places import Places
from starforge.runner.ports import build_port_settings

if TYPE_CHECKING:
    from starforge.runner.checkpoints import Committed

HOOK_DIRECTORY = "hook"  # inside the runner's archive: a sitecustomize of its own
_NOT_FOR_THE_JOB = (contract.ENV_CAPSULE_DIGEST, contract.ENV_SECRETS_DIR)


@dataclass(frozen=True)
class Secrets:
    """The run's secrets by name, and the token for ingest, which the training process never gets."""

    values: Mapping[str, bytes]
    ingest_token: Optional[str]

    def __repr__(self) -> str:
        """Names only."""
        return f"Secrets({sorted(self.values)})"


@dataclass(frozen=True)
class Launch:
    """What to start: a command line, its whole environment, its directory."""

    argv: Tuple[str, ...]
    environment: Dict[str, str]
    directory: str

    def __repr__(self) -> str:
        """Without the environment, which holds secrets."""
        return f"Launch({self.argv!r} in {self.directory!r})"


def load_secrets(directory: str) -> Secrets:
    """Read the secrets' directory; a missing one means none. Raises Refusal when a file is unreadable."""
    values = {}
    try:
        names = os.listdir(directory) if os.path.isdir(directory) else []
        for name in sorted(names):
            path = os.path.join(directory, name)
            if not name.startswith(".") and os.path.isfile(path):
                with open(path, "rb") as file:
                    values[name] = file.read()
    except OSError as error:
        text = f"the run's secrets cannot be read: {error}; the container must run as the user they were written for"
        raise _refuse(text) from error
    token = values.get(contract.INGEST_TOKEN_NAME)
    return Secrets(values, token.decode("ascii", "replace").strip() if token else None)


def make_report_file() -> str:
    """Make the file that starforge.report appends to, on the container's own disk. Raises Refusal."""
    problems = []
    for root in filter(None, (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm")):  # noqa: S108 - see the name
        path = os.path.join(root, f"starforge-report-{os.urandom(8).hex()}.jsonl")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            problems.append(str(error))
            continue
        return path
    text = f"no directory for temporary files is writable ({'; '.join(problems)}): give the image a writable /tmp"
    raise _refuse(text)


def remove_report_file(path: str) -> None:
    """Remove it once it was read to its end; where the container is no container, nothing else would."""
    try:
        os.unlink(path)
    except OSError:
        return  # the job removed it, or its directory


def apply_plan(capsule: contract.Capsule, root: str) -> None:
    """Write the plan's files and the resolved configuration below `root`, and link the inputs there. Raises Refusal."""
    spec = capsule.spec.get("spec")
    resolved = (spec.get("hyperparameters") if isinstance(spec, dict) else None) or {}
    files = {contract.RESOLVED_CONFIG_FILE: json.dumps(resolved, indent=2, sort_keys=True) + "\n"}
    files.update(capsule.plan.files)
    for name, text in files.items():
        path = _inside(root, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _refuse_unmade(f"the file {name}", error) from error
    for name, target in {**capsule.inputs, **capsule.plan.links}.items():
        path = _inside(root, name)
        if os.path.lexists(path):
            raise _refuse(f"the input {name} is already a file of the workspace: rename one")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        except OSError as error:
            raise _refuse_unmade(f"the input {name}", error) from error


def build_launch(
    capsule: contract.Capsule, places: Places, secrets: Secrets, report_file: str, resume: Optional[Committed]
) -> Launch:
    """Build the command line and the environment; later layers win: container, platform, plan, StarForge, secrets."""
    plan = capsule.plan
    environment = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_THE_JOB}
    environment.setdefault("PYTHONUNBUFFERED", "1")  # else stdout and stderr do not come in order
    for name, setting in _build_torchrun_settings(capsule, places).items():
        environment.setdefault(name, setting)
    environment.update(capsule.platform_env)
    environment.update(build_port_settings(plan, os.environ))
    environment.update(plan.env)
    environment.update(_build_job_names(capsule, places, report_file))
    environment.pop(contract.ENV_RESUME_FROM, None)
    if resume is not None:
        environment[contract.ENV_RESUME_FROM] = resume.path
    environment["PYTHONPATH"] = _build_python_path(plan, places.runner, environment.get("PYTHONPATH", ""))
    for name, value in secrets.values.items():
        if name != contract.INGEST_TOKEN_NAME:
            environment[name] = value.decode("utf-8", "surrogateescape")
    argv = plan.argv + (plan.resume if resume is not None else ())
    directory = places.work if plan.cwd == "." else _inside(places.work, plan.cwd)
    return Launch(argv, environment, directory)


def _build_torchrun_settings(capsule: contract.Capsule, places: Places) -> Dict[str, str]:
    """Build what torchrun reads from the environment.

    It kills its workers 30 s after a TERM; how long they may take to save is the run's grace, which ends them too. On
    a single node it looks for itself under the machine's name, which not every network knows: it would never start. On
    several they meet at the leader.
    """
    patience = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1000000"}
    if capsule.node_count == 1:
        return {**patience, "PET_LOCAL_ADDR": "127.0.0.1"}
    nodes = {"PET_NNODES": str(capsule.node_count), "PET_NODE_RANK": str(places.node_rank)}
    leader = os.environ.get(contract.ENV_LEADER_ADDR)
    if leader:
        nodes.update({"MASTER_ADDR": leader, "PET_MASTER_ADDR": leader})
    return {**patience, **nodes}


def _build_job_names(capsule: contract.Capsule, places: Places, report_file: str) -> Dict[str, str]:
    return {
        contract.ENV_JOB: capsule.job,
        contract.ENV_ATTEMPT: capsule.attempt,
        contract.ENV_ATTEMPT_NUMBER: str(capsule.number),
        contract.ENV_OUT_DIR: places.out,
        contract.ENV_CKPT_DIR: places.ckpt,
        contract.ENV_SPEC: os.path.join(places.work, contract.RESOLVED_CONFIG_FILE),
        contract.ENV_REPORT_FILE: report_file,
        contract.ENV_PYTHON: sys.executable,
        contract.ENV_NODE_RANK: str(places.node_rank),
        contract.ENV_NODE_COUNT: str(capsule.node_count),
    }


def resolve_plan(plan: contract.Plan, places: Places, resume: Optional[Committed]) -> contract.Plan:
    """Give the plan with its PLACE_ words replaced by the attempt's paths, everywhere but in names of files."""
    words = [
        (contract.PLACE_WORK, places.work),
        (contract.PLACE_CKPT, places.ckpt),
        (contract.PLACE_OUT, places.out),
        (contract.PLACE_PYTHON, sys.executable),
        (contract.PLACE_RESUME, resume.path if resume is not None else ""),
        (contract.PLACE_RESUME_STEP, str(resume.step) if resume is not None else ""),
    ]
    return contract.Plan.from_json(_replace_all(plan.to_json(), words))


def _build_python_path(plan: contract.Plan, runner: str, existing: str) -> str:
    entries = [runner]
    if any(source.kind == "trainer" for source in plan.metric_sources):
        entries.append(os.path.join(runner, HOOK_DIRECTORY))
    entries += plan.python_path
    return os.pathsep.join([*entries, existing] if existing else entries)


def _replace_all(part: Any, words: List[Tuple[str, str]]) -> Any:  # noqa: ANN401 - a part of a document
    if isinstance(part, dict):
        return {name: _replace_all(value, words) for name, value in part.items()}
    if isinstance(part, list):
        return [_replace_all(value, words) for value in part]
    if isinstance(part, str):
        for word, path in words:
            part = part.replace(word, path)
    return part


def _inside(root: str, name: str) -> str:
    path = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) or not path.startswith(root + os.sep):
        raise _refuse(f"the plan names {name!r}, which lies outside of the work directory")
    return path


def _refuse_unmade(what: str, error: OSError) -> Refusal:
    text = f"{what} cannot be made in the work directory: {error.strerror}"
    stands = isinstance(error, (FileExistsError, IsADirectoryError, NotADirectoryError))
    return _refuse(f"{text}; rename what the workspace has in its place" if stands else text)


def _refuse(text: str) -> Refusal:
    return Refusal(contract.EXIT_REQUIREMENTS, "start_failed", text)
