"""Why a job waits, as the ledger keeps it: each reason with its places, as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from starforge.said.sentence import read_said, write_said
from starforge_console.domain.waiting import WaitReason


def write_waits(reasons: Sequence[WaitReason]) -> str:
    """The reasons as JSON; `said` of a reason and of its places is what `write_said` keeps of them."""
    return json.dumps([_as_json(one) for one in reasons])


def read_waits(kept: str | None) -> tuple[WaitReason, ...]:
    """The reasons that were kept; none where nothing is told."""
    return tuple(_from_json(one) for one in json.loads(kept)) if kept else ()


def _as_json(one: WaitReason) -> dict[str, Any]:
    said = [write_said(text) for text in (one.reason, *one.places)]
    kept = {"reason": str(one.reason), "places": [str(place) for place in one.places], "more": one.more}
    if one.starts_by is not None:
        kept["starts_by"] = one.starts_by
    return kept | {"said": said} if any(said) else kept


def _from_json(kept: dict[str, Any]) -> WaitReason:
    texts = [kept["reason"], *kept["places"]]
    said = kept.get("said") or [None] * len(texts)
    reason, *places = [read_said(text, code) for text, code in zip(texts, said, strict=True)]
    return WaitReason(reason, tuple(places), kept["more"], kept.get("starts_by"))
