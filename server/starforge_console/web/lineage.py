"""Routes of where a job came from: its difference, its workspace, and the same once more."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header
from starlette.responses import FileResponse, Response

from starforge.contract.api import HEADER_IDEMPOTENCY_KEY, AdmissionRecord, DifferenceView
from starforge.contract.ids import Digest
from starforge.contract.jobspec import JobSpec
from starforge.errors import NotFound
from starforge_console.ledger.lineages import load_lineage
from starforge_console.ledger.views import load_documents
from starforge_console.web.deps import ApiServices, Reader, Services, Submitter
from starforge_console.web.problems import problem_responses

router = APIRouter(tags=["jobs"])

_TAR: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The plain tar. Part of it can be asked for with Range.",
        "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
    }
}

Key = Annotated[str | None, Header(alias=HEADER_IDEMPOTENCY_KEY, min_length=1, max_length=200)]


@router.get("/jobs/{job_id}/difference", response_model=DifferenceView, responses=problem_responses(401, 403, 404))
async def show_difference(services: Services, _account: Reader, job_id: str) -> Response:
    """How the tree of a job differs from its commit; 404 where nothing is kept of it."""
    found = await load_difference(services, job_id)
    if found is None:
        raise NotFound(
            f"no difference is kept of job {job_id}",
            why="its tree was that of its commit, or its client sent none",
            next_step=f"'sf job clone {job_id}' brings the files themselves",
        )
    return Response(found.model_dump_json(), media_type="application/json")


@router.get("/jobs/{job_id}/workspace", response_class=FileResponse, responses=_TAR | problem_responses(401, 403, 404))
async def send_workspace(services: Services, _account: Reader, job_id: str) -> Response:
    """The job's packed workspace, whose digest is in its spec."""
    spec = await _load_spec(services, job_id)
    digest = Digest(spec.spec.workspace.digest)
    if await services.blobs.find_size(digest) is None:
        raise NotFound(
            f"the workspace of job {job_id} is not in the storage any more",
            why=f"there is no blob {digest}",
            next_step="ask the administrator for a backup of the storage",
        )
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"}
    path = services.blobs.locate(digest)
    return FileResponse(path, media_type="application/x-tar", filename=f"{job_id}.tar", headers=headers)


@router.post(
    "/jobs/{job_id}/rerun",
    status_code=201,
    response_model=AdmissionRecord,
    responses=problem_responses(401, 403, 404, 409),
)
async def rerun_job(services: Services, account: Submitter, job_id: str, key: Key = None) -> Response:
    """Admit the very same JobSpec again, as a new job of the caller's; every gate is asked anew."""
    record = await services.admission.rerun(account, job_id, key)
    return Response(record.model_dump_json(), status_code=201, media_type="application/json")


async def load_difference(services: ApiServices, job_id: str) -> DifferenceView | None:
    """The difference that is kept of a job, if any. Raises NotFound for a job that is not there."""
    spec = await _load_spec(services, job_id)
    kept = (await services.ledger.read(lambda c: load_lineage(c, job_id))).difference
    if kept is None:
        return None
    commit = spec.spec.provenance.commit
    return DifferenceView(job=job_id, commit=commit, text=kept.unpack(), is_cut=kept.is_cut)


async def _load_spec(services: ApiServices, job_id: str) -> JobSpec:
    documents = await services.ledger.read(lambda c: load_documents(c, job_id))
    return JobSpec.model_validate_json(documents.spec)
