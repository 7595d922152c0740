"""All points of a job's curves as one file of CSV, written as it is sent."""

import csv
import io
import math
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import StringConstraints
from starlette.responses import StreamingResponse

from starforge_console.ledger.points import list_keys
from starforge_console.ledger.views import load_job
from starforge_console.web.deps import ApiServices
from starforge_console.web.problems import problem_responses

KEYS_AT_MOST: Final = 200
"""So many keys fit an address; whoever wants more takes all."""
_PIECE_BYTES: Final = 64 << 10
_HEAD: Final = ("key", "attempt", "step", "time", "value")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula: a job may call its metrics anything."""

CSV_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The points.", "content": {"text/csv": {"schema": {"type": "string"}}}},
    **problem_responses(401, 403, 404),
}

Keys = Annotated[
    list[Annotated[str, StringConstraints(max_length=256)]],
    Query(alias="key", max_length=KEYS_AT_MOST, description="given once for each; default: all"),
]


async def send_csv(services: ApiServices, job_id: str, keys: Sequence[str]) -> StreamingResponse:
    """The answer that holds every point of these curves, of all without any. Raises NotFound for an unknown job."""
    await services.ledger.read(lambda c: load_job(c, job_id))
    chosen = list(dict.fromkeys(keys)) or list(await services.series.read(lambda c: list_keys(c, job_id)))
    headers = {
        "Content-Disposition": f'attachment; filename="{job_id}-metrics.csv"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(_write(services, job_id, chosen), media_type="text/csv", headers=headers)


async def _write(services: ApiServices, job_id: str, keys: Sequence[str]) -> AsyncIterator[str]:
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    # By itself it leaves a carriage return bare, which ends a row to most readers.
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    plain.writerow(_HEAD)
    for key in keys:
        shown = f"'{key}" if key.startswith(_FORMULA) else key
        rows = quoted if "\r" in key else plain
        async for attempt, columns in services.curves.points(job_id, key):
            for step, value, time in zip(columns.steps, columns.values, columns.times, strict=True):
                rows.writerow((shown, attempt, step, time, value if math.isfinite(value) else str(value)))
            if text.tell() >= _PIECE_BYTES:
                yield text.getvalue()
                text.seek(0)
                text.truncate()
    yield text.getvalue()
