"""Templates of shell scripts, whose own braces and dollars stay what they are."""

import re
from collections.abc import Mapping


def fill(template: str, values: Mapping[str, str | int]) -> str:
    """The template with `@name@` replaced; what is put in is not looked at again. Raises KeyError for another name."""
    parts = re.split(r"@([a-z_]+)@", template)
    return "".join(str(values[part]) if place % 2 else part for place, part in enumerate(parts))
