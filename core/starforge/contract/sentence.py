"""A text of a message that keeps its code and values inside this process, and is plain text to everybody outside."""

from collections.abc import Callable
from typing import Annotated

from pydantic import WrapValidator

from starforge.said.sentence import Said


def _keep_said(value: object, check: Callable[[object], str]) -> str:
    text = check(value)
    return value if isinstance(value, Said) else text


Sentence = Annotated[str, WrapValidator(_keep_said)]
"""A text that keeps code and values where it has them: pages read the same messages as the API gives."""
