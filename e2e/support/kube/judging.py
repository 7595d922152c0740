"""Whether a document may be what it says, and what it becomes by being taken."""

import base64
import re
from typing import Final

from e2e.support.kube import schema as rules
from e2e.support.kube import status
from e2e.support.kube.kinds import Kind
from e2e.support.kube.status import Document, Refusal

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_BLOCKING: Final = ("FieldValueTypeInvalid", "FieldValueRequired")
_LABEL_RULE: Final = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def judge(kind: Kind, document: Document, *, is_strict: bool) -> None:
    """Fill in defaults and drop unknown fields, in place.

    Raises:
        Refusal: 400 for unknown fields where that is asked, 422 for fields that hold what they must not.

    """
    if kind.schema is rules.ANY:
        _judge_metadata(kind, document)
        return
    unknown = list(rules.list_unknown(kind.schema, document))
    if unknown and is_strict:
        listed = ", ".join(f'unknown field "{place}"' for place in unknown)
        handled = f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}'
        raise Refusal(400, f"{handled}: strict decoding error: {listed}")
    rules.prune(kind.schema, document)
    for part in ("spec", "status"):
        if part in document:
            rules.fill_defaults(kind.schema.fields[part], document[part])
    causes = [
        cause
        for part in ("spec", "status")
        if part in document
        for cause in rules.list_causes(kind.schema.fields[part], document[part], part)
    ]
    if any(cause["reason"] in _BLOCKING for cause in causes):
        causes.append(
            {"reason": "FieldValueInvalid", "message": f"Invalid value: null: {_UNCHECKED}", "field": "<nil>"}
        )
    if causes:
        raise status.invalid(kind.group, kind.kind, document.get("metadata", {}).get("name", ""), causes)
    _judge_metadata(kind, document)


def judge_part(kind: Kind, name: str, document: Document) -> None:
    """Whether a part of a document can be applied. Raises Refusal (400, 500)."""
    given = document.get("metadata", {}).get("name")
    if not given:
        said = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        raise Refusal(400, said)
    if given != name:
        raise Refusal(400, f"the name of the object ({given}) does not match the name on the URL ({name})")
    if kind.schema is rules.ANY:
        return
    untyped = f"failed to create typed patch object (/{name}; {kind.version}, Kind={kind.kind})"
    for place in rules.list_unknown(kind.schema, document):
        raise Refusal(500, f"{untyped}: .{place}: field not declared in schema")
    for cause in rules.list_causes(kind.schema, document, ""):
        if cause["reason"] == "FieldValueTypeInvalid":
            raise Refusal(500, f"{untyped}: {cause['field']}: {cause['message']}")


def normalize(kind: Kind, document: Document) -> None:
    """What the server makes of a new document, in place."""
    document |= {"apiVersion": kind.version, "kind": kind.kind}
    if kind.plural == "secrets" and "stringData" in document:
        written = {name: base64.b64encode(text.encode()).decode() for name, text in document.pop("stringData").items()}
        document["data"] = document.get("data", {}) | written
    if kind.plural == "pods":
        document.setdefault("status", {"phase": "Pending"})


def _judge_metadata(kind: Kind, document: Document) -> None:
    metadata = document.get("metadata", {})
    name = metadata.get("name", "")
    causes = []
    if not name:
        said = "Required value: name or generateName is required"
        causes.append({"reason": "FieldValueRequired", "message": said, "field": "metadata.name"})
    elif not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        said = f'Invalid value: "{name}": {_NAME_RULE}'
        causes.append({"reason": "FieldValueInvalid", "message": said, "field": "metadata.name"})
    for value in (metadata.get("labels") or {}).values():
        if not _LABEL.fullmatch(value) or len(value) > _LONGEST_LABEL:
            said = (
                f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric characters'
            )
            causes.append({"reason": "FieldValueInvalid", "message": said, "field": "metadata.labels"})
    if causes:
        raise status.invalid(kind.group, kind.kind, name, causes)
