"""What a machine offers, from its GPUs and from what the listing claims: pure."""

from collections.abc import Collection, Sequence

from starforge.containers.facts import HostFacts
from starforge.containers.gpu_users import find_stranger
from starforge.containers.gpus import WITHOUT_GPUS, Gpu, GpuSurvey, NotKnown, SurveyResult
from starforge.containers.labels import Claim
from starforge.containers.settings import HostSettings
from starforge.contract.executor import GpuState, GpuView, NodeView
from starforge.said.sentence import say


def build_view(
    survey: SurveyResult, claims: Sequence[Claim], facts: HostFacts, settings: HostSettings, trouble: str
) -> NodeView:
    """The machine as placement sees it. `trouble` is why it takes nothing now, or empty.

    What another install's containers hold is foreign, and so is a GPU that a process outside every labelled container
    uses; of CPUs and memory other installs take their part as ours do. GPUs that are not known leave CPUs and memory
    to offer.
    """
    labelled = {claim.container for claim in claims}
    living = [claim for claim in claims if claim.holds(facts.boot)]
    holders = {gpu: claim for claim in living for gpu in claim.gpus}
    unknown = ""
    if isinstance(survey, NotKnown):
        unknown = f"the GPUs of {settings.node} are not known: {survey.reason}; {WITHOUT_GPUS}"
        survey = GpuSurvey(())
    return NodeView(
        name=settings.node,
        gpus=tuple(_view_gpu(gpu, holders.get(gpu.uuid), settings.install, labelled) for gpu in survey.gpus),
        cpus=facts.cpus,
        memory_bytes=facts.memory_bytes,
        held={claim.attempt: (claim.cpus, claim.memory_bytes) for claim in living},
        accepts=not trouble,
        why_not=trouble or "; ".join(survey.complaints),
        gpus_unknown=unknown,
    )


def _view_gpu(gpu: Gpu, holder: Claim | None, install: str, labelled: Collection[str]) -> GpuView:
    state, why = GpuState.FREE, ""
    stranger = find_stranger(gpu.users, labelled)
    if holder is not None and holder.install != install:
        state, why = GpuState.FOREIGN, say("host.foreign", install=holder.install)
    elif holder is not None:
        state = GpuState.HELD
    elif gpu.why_not:
        state, why = GpuState.QUARANTINED, gpu.why_not
    elif stranger is not None:
        state, why = (GpuState.FOREIGN if stranger.known else GpuState.QUARANTINED), stranger.why
    return GpuView(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        series=None,
        memory_bytes=gpu.memory_bytes,
        state=state,
        attempt=holder.attempt if state is GpuState.HELD and holder else None,
        why=why,
    )
