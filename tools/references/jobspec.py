"""The document docs/dev/jobspec.schema.json: a JobSpec as JSON Schema, for editors and other programs."""

import json

from starforge.contract.jobspec import JobSpec

_HEAD = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def build_page() -> str:
    """The whole document, the same text for the same models."""
    return json.dumps(_HEAD | JobSpec.model_json_schema(by_alias=True), indent=1, ensure_ascii=False) + "\n"
