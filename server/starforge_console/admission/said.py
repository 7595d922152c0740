"""Code and values of what gates said, kept beside the record: its seal is over the English texts alone."""

import json

from starforge.contract.api import AdmissionRecord
from starforge.said.sentence import read_said, write_said


def write_sentences(record: AdmissionRecord) -> str | None:
    """What `read_record` needs beside the record's JSON; None where no gate said a sentence with a code."""
    checks = [write_said(check.message) for check in record.checks]
    warnings = [write_said(warning) for warning in record.warnings]
    return json.dumps({"checks": checks, "warnings": warnings}) if any([*checks, *warnings]) else None


def read_record(text: str, said: str | None) -> AdmissionRecord:
    """The record with its sentences as they were said."""
    record = AdmissionRecord.model_validate_json(text)
    if said is None:
        return record
    kept = json.loads(said)
    checks = tuple(
        check.model_copy(update={"message": read_said(check.message, code)})
        for check, code in zip(record.checks, kept["checks"], strict=True)
    )
    warnings = tuple(read_said(*one) for one in zip(record.warnings, kept["warnings"], strict=True))
    return record.model_copy(update={"checks": checks, "warnings": warnings})
