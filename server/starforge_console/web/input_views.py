"""What a job reads beside its workspace, as messages of the API."""

from starforge.contract.api import InputView
from starforge_console.domain.inputs import CheckpointInput, HubInput, JobInput, JobInputs, PathInput


def build_inputs(inputs: JobInputs) -> tuple[InputView, ...]:
    """What a job reads beside its workspace."""
    return tuple(_build_input(member, one) for member, one in inputs.items())


def _build_input(member: str, one: JobInput) -> InputView:
    match one:
        case HubInput(ref=ref, commit=commit):
            return InputView(member=member, kind="hub", name=f"{ref.repo}@{ref.revision}", version=commit)
        case PathInput(path=path):
            return InputView(member=member, kind="path", name=path)
        case CheckpointInput():
            version = f"attempt {one.attempt}, step {one.step}"
            return InputView(member=member, kind="checkpoint", name=one.job, version=version)
