"""Why attempts failed, as pages tell it: which answers are worth a word, in the language of the reader."""

from collections.abc import Mapping, Sequence

from starforge.contract.diagnosis import DiagnosisView
from starforge.diagnosis.answer import RULES_VERSION, Category
from starforge_console.ledger.diagnoses import KeptDiagnosis
from starforge_console.ledger.listing import JobLine
from starforge_console.web.i18n.words import Words

_NO_CAUSE = frozenset({Category.UNKNOWN, Category.STOPPED})


def tell_cause(found: DiagnosisView, words: Words) -> tuple[str, str]:
    """Summary and advice in the reader's language; as they were found where rules of another version did."""
    code = f"diagnosis.{found.kind}"
    if found.rules_version != RULES_VERSION or code not in words.codes:
        return found.summary, found.advice
    return words(code, **found.facts), words(f"{code}.advice", **found.facts)


def choose_causes(lines: Sequence[JobLine], kept: Mapping[str, KeptDiagnosis]) -> dict[str, DiagnosisView]:
    """Why the newest attempt of each job failed, by job, where a cause is known; `kept` is by attempt."""
    found = {line: kept.get(line.job.attempt_id or "") for line in lines}
    return {
        line.job.id: DiagnosisView.model_validate(
            {**one.answer, "job": line.job.id, "attempt": line.job.attempt_number, "diagnosed_at": one.at}
        )
        for line, one in found.items()
        if one is not None and one.answer["category"] not in _NO_CAUSE
    }
