"""Why attempts failed, as pages tell it: which answers are worth a word, in the language of the reader."""

from typing import Final

from starforge.contract.diagnosis import DiagnosisView
from starforge.diagnosis.answer import RULES_VERSION, Category
from starforge_console.ledger.views import list_attempts
from starforge_console.web.deps import ApiServices
from starforge_console.web.diagnosis import find_view
from starforge_console.web.i18n.words import Words

_NO_CAUSE: Final = frozenset({Category.UNKNOWN, Category.STOPPED})


def tell_cause(found: DiagnosisView, words: Words) -> tuple[str, str]:
    """Summary and advice in the reader's language; as they were found where rules of another version did."""
    code = f"diagnosis.{found.kind}"
    if found.rules_version != RULES_VERSION or code not in words.codes:
        return found.summary, found.advice
    return words(code, **found.facts), words(f"{code}.advice", **found.facts)


async def find_cause(services: ApiServices, job_id: str) -> DiagnosisView | None:
    """Why the newest attempt of the job failed; None where no cause is known."""
    attempts = await services.ledger.read(lambda c: list_attempts(c, job_id))
    found = await find_view(services, job_id, attempts[-1]) if attempts else None
    return None if found is None or found.category in _NO_CAUSE else found
