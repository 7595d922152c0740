"""Which objects a query means: the selectors of labels and fields that Kubernetes knows, as far as they are asked."""

import re
from dataclasses import dataclass
from typing import Final

from e2e.support.kube.status import Document, Refusal

_TERM: Final = re.compile(
    r"\s*([\w./-]+)\s*(==|=|!=|\s+in\s+|\s+notin\s+)\s*(\([^)]*\)|[\w./-]*)\s*|\s*(!?)([\w./-]+)\s*"
)
_COMMA: Final = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Selector:
    """`labels` and `fields` as the query writes them; both empty: everything."""

    labels: str = ""
    fields: str = ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def takes(self, one: Document) -> bool:
        """Whether the object is meant. Raises Refusal (400) for a selector that cannot be read."""
        labels = one.get("metadata", {}).get("labels") or {}
        if self.labels and not all(_holds(term, labels) for term in _COMMA.split(self.labels)):
            return False
        return not self.fields or all(_holds_field(term, one) for term in self.fields.split(","))


def _holds(term: str, labels: dict[str, str]) -> bool:
    match = _TERM.fullmatch(term)
    if match is None:
        raise Refusal(400, f"unable to parse requirement: {term!r}")
    if match[5] is not None:
        return (match[5] in labels) != bool(match[4])
    name, operator, wanted = match[1], match[2].strip(), match[3]
    values = {one.strip() for one in wanted.strip("()").split(",")}
    if operator in {"!=", "notin"}:
        return labels.get(name) not in values
    return name in labels and labels[name] in values


def _holds_field(term: str, one: Document) -> bool:
    name, _, wanted = term.partition("=")
    is_not = name.endswith("!")
    value: object = one
    for step in name.rstrip("!").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return (str(value or "") == wanted.lstrip("=")) != is_not
