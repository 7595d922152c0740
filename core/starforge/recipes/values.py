"""One value against what a parameter takes: its type, its choices, its bounds; and how values are named to people."""

from collections.abc import Mapping
from typing import Final

from starforge.contract.canonical import Json
from starforge.recipes.faults import Fault, Place
from starforge.recipes.model import Parameter, ParameterType
from starforge.wording import describe_nearest

_BOOL_WORDS: Final = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_PYTHON: Final[Mapping[ParameterType, type | tuple[type, ...]]] = {
    "text": str,
    "int": int,
    "number": (int, float),
    "bool": bool,
    "list": list,
    "map": dict,
}
_WANTED: Final[Mapping[ParameterType, str]] = {
    "text": "a text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "map": "keys and values",
    "any": "a value",
}


def check_value(parameter: Parameter, value: Json, place: Place) -> list[Fault]:
    """What is wrong with `value` for `parameter`, at most one fault."""
    name = parameter.name
    may_be_left_out = value is None and (parameter.nullable or parameter.default is None)
    if not may_be_left_out and not has_type(parameter.type, value):
        message = f"{name} must be {_WANTED[parameter.type]}, not {describe_value(value)}"
        return [Fault("value_type", message, place, hint_for_type(parameter.type, value))]
    if value is not None and parameter.choices and value not in parameter.choices:
        hint = describe_nearest(str(value), parameter.choices)
        return [Fault("value_choice", f"{name} must be one of {', '.join(parameter.choices)}", place, hint)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return check_bounds(name, value, (parameter.minimum, parameter.maximum), place)
    if isinstance(value, list) and parameter.items is not None:
        return _check_items(parameter, parameter.items, value, place)
    return []


def check_bounds(name: str, value: float, bounds: tuple[float | None, float | None], place: Place) -> list[Fault]:
    """What is wrong with a number whose least and most are `bounds`, both allowed; None is no bound."""
    least, most = bounds
    if least is not None and value < least:
        return [Fault("value_bounds", f"{name} is {value}, the least is {least:g}", place)]
    if most is not None and value > most:
        return [Fault("value_bounds", f"{name} is {value}, the most is {most:g}", place)]
    return []


def _check_items(parameter: Parameter, wanted: ParameterType, values: list[Json], place: Place) -> list[Fault]:
    wrong = next((value for value in values if not has_type(wanted, value)), None)
    if wrong is None:
        return []
    message = f"each of {parameter.name} must be {_WANTED[wanted]}, not {describe_value(wrong)}"
    return [Fault("value_type", message, place, hint_for_type(wanted, wrong))]


def has_type(wanted: ParameterType, value: Json) -> bool:
    """Whether `value` may stand where `wanted` is asked for; a whole number may stand for a number."""
    if isinstance(value, bool):
        return wanted in {"bool", "any"}
    return wanted == "any" or isinstance(value, _PYTHON[wanted])


def describe_value(value: Json) -> str:
    """The value with its kind, short enough for a message."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, int | float):
        return f"the truth value {str(value).lower()}" if isinstance(value, bool) else f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    return f"a list of {len(value)}" if isinstance(value, list) else "keys and values"


def hint_for_type(wanted: ParameterType, value: Json) -> str:
    """What to write instead, where that can be said."""
    if wanted == "text" and isinstance(value, bool | int | float):
        return "quote it"
    if wanted == "bool" and isinstance(value, str) and value.lower() in _BOOL_WORDS:
        return f"write {_BOOL_WORDS[value.lower()]}: YAML 1.2 reads {value} as a text"
    if wanted in {"int", "number"} and isinstance(value, str):
        return "write it without quotes, digit groups or units"
    if wanted == "int" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if wanted == "list" and isinstance(value, str):
        return "write [a, b]"
    return ""


def spell_value(value: Json) -> str:
    """As it is written in a config, for a sentence `NAME is …`; a text without quotes. Pure."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
