"""Gate `inputs`: what the job reads beside its workspace lies where this console lets jobs read, and is there."""

import re
from pathlib import PurePosixPath
from typing import Final

from starforge.contract.api import RefusalView
from starforge.contract.jobspec import JobSpec
from starforge.recipes.columns import advise, explain_unfit, list_wanted
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.domain.inputs import (
    HUB_SCHEME,
    START,
    TRAIN,
    VALIDATION,
    CheckpointInput,
    HubInput,
    InputFault,
    JobInput,
    JobInputs,
    PathInput,
    describe_input,
    find_hub_ref,
    find_named,
)

_CUSTOM: Final = "custom"
_DATA: Final = frozenset({TRAIN, VALIDATION})
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|hf:")
"""An address that is no `hf://`. Whether a path in the workspace is there, only the client can know."""


class InputsGate:
    """Asks for paths below a data root, and for a committed checkpoint that is a start. Hubs have their own gate."""

    name = "inputs"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether every path and checkpoint can be given to the job."""
        refusals, against = [], []
        for member, text in find_named(submission.spec).items():
            match snapshot.stored.get(member):
                case PathInput() | CheckpointInput() as found:
                    against.append(f"{member}: {describe_input(found)}")
                    refusals += self._check_columns(member, found, submission.spec, snapshot)
                case InputFault() as fault:
                    refusals.append(self._refuse(fault.code, f"{member}: {fault.what}", fault.why, fault.next_step))
                case None:
                    refusals += self._check_text(member, text)
        refusals += self._check_start(submission.spec, snapshot)
        return Verdict(against="; ".join(against), refusals=tuple(refusals))

    def _check_text(self, member: str, text: str) -> list[RefusalView]:
        """What is wrong with a text that names nothing on the storage: a path in the workspace, or another address."""
        if text.startswith(HUB_SCHEME) or member == START:
            return []
        if _SCHEME.match(text):
            what = f"{member}: nothing here reads {text!r}"
            return [self._refuse("input_scheme", what, next_step="name a path, or hf://OWNER/NAME@REVISION")]
        if text.startswith("/") or ".." in PurePosixPath(text).parts:
            what = f"{member}: {text!r} leads out of the workspace"
            return [self._refuse("input_outside", what, next_step="name a path inside of it, without '..'")]
        return []

    def _check_columns(
        self, member: str, found: PathInput | CheckpointInput, spec: JobSpec, snapshot: Snapshot
    ) -> list[RefusalView]:
        """Whether the rows of a data file have what the method needs, where both are known."""
        recipe = snapshot.catalog.get(spec.spec.recipe.name)
        if recipe is None or member not in _DATA or isinstance(found, CheckpointInput):
            return []
        asked = recipe.at(spec.spec.framework.version)
        why = explain_unfit(list_wanted(asked, spec.spec.hyperparameters), found.columns)
        if not why:
            return []
        what = f"{member}: {found.path} does not fit {asked.name}"
        return [self._refuse("data_columns", what, why, advise(asked))]

    def _check_start(self, spec: JobSpec, snapshot: Snapshot) -> list[RefusalView]:
        """Whether the method can begin with what the other one left behind; custom jobs know best what they read."""
        asked, made_by = (snapshot.catalog.get(name or "") for name in (spec.spec.recipe.name, snapshot.start_method))
        if asked is None or asked.framework == _CUSTOM:
            return []
        if snapshot.start_is_adapter:
            what = (
                f"{START}: {asked.name} needs a whole model, and this checkpoint is an adapter (LoRA) without its base"
            )
            why = "it names its base by a path of the job that made it, and nothing shows these weights to be there"
            next_step = "let a custom job merge the two, or start from a job that trained without use_peft"
            return [self._refuse("checkpoint_adapter", what, why, next_step)]
        if made_by is None:
            return []
        action = "evaluate" if "evaluate" in asked.roles else "init_from"
        if action in made_by.actions:
            return []
        what = f"{START}: {asked.name} cannot begin with a checkpoint of {made_by.name}"
        why = (
            f"after {made_by.name} a checkpoint serves for {', '.join(made_by.actions) or 'going on with the same job'}"
        )
        next_step = "let a custom job convert it, and name what comes of that as the model"
        return [self._refuse("checkpoint_unfit", what, why, next_step)]

    def _refuse(self, code: str, what: str, why: str = "", next_step: str = "") -> RefusalView:
        return RefusalView(code=code, gate=self.name, what=what, why=why, next_step=next_step)


def pin_inputs(spec: JobSpec, snapshot: Snapshot) -> JobInputs:
    """What the job reads beside its workspace, as it was found when every gate passed. Pure."""
    pinned: dict[str, JobInput] = {}
    for member, text in find_named(spec).items():
        found, ref = snapshot.stored.get(member), find_hub_ref(member, text)
        if isinstance(found, PathInput | CheckpointInput):
            pinned[member] = found
        elif ref is not None and member != START:
            answer = snapshot.hub.get(member)
            pinned[member] = HubInput(ref, answer.commit if answer else None)
    return pinned
