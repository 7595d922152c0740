"""Rules between hyperparameters, as a recipe writes them: small expressions over names, numbers and texts.

Names are hyperparameters, dotted ones included, and `gpus` (of all nodes together), `nodes` and `processes` of the job.
What is not known, such as the GPUs before a profile was chosen, is None: an expression that meets it has no answer, and
the rule is not applied. `given(name)` says whether a hyperparameter has a value at all.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starforge.contract.canonical import Json

_MOST_CHARACTERS: Final = 500
_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
}


class _UnknownError(Exception):
    """The expression meets something that is not known."""


def check_expression(text: str) -> None:
    """Return when `text` is an expression that `find_truth` can answer.

    Raises:
        ValueError: it is none; says what is not understood.

    """
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.BinOp):
            _expect(type(node.op) in _BINARY, node, text)
        elif isinstance(node, ast.Compare):
            _expect(all(type(one) in _COMPARED for one in node.ops), node, text)
        elif isinstance(node, ast.Call):
            _expect(_find_asked(node) is not None, node, text)
        else:
            _expect(isinstance(node, _UNDERSTOOD), node, text)


def find_truth(text: str, values: Mapping[str, Json]) -> bool | None:
    """Whether the expression holds for `values`; None where something in it is not known. Pure."""
    try:
        return bool(_evaluate(_parse(text).body, values))
    except (_UnknownError, TypeError, ZeroDivisionError, OverflowError):
        return None


def list_names(text: str) -> Sequence[str]:
    """The names in an expression, in the order in which they stand there."""
    found: list[str] = []
    _collect(_parse(text).body, found)
    return found


_UNDERSTOOD: Final = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Load,
    ast.Tuple,
    ast.List,
    ast.operator,
    ast.cmpop,
)


def _parse(text: str) -> ast.Expression:
    if len(text) > _MOST_CHARACTERS:
        message = f"the expression has {len(text)} characters, {_MOST_CHARACTERS} at most"
        raise ValueError(message)
    try:
        return ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        message = f"{text!r} is no expression: {error.msg}"
        raise ValueError(message) from error


def _expect(holds: bool, node: ast.AST, text: str) -> None:  # noqa: FBT001 - the outcome of a check
    if not holds:
        message = f"{text!r} holds {type(node).__name__}, which rules do not know"
        raise ValueError(message)


def _evaluate(node: ast.expr, values: Mapping[str, Json]) -> Any:  # noqa: ANN401, C901, PLR0911 - a value of any type; one line a kind
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return _look_up(_spell(node), values)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_evaluate(part, values) for part in parts]
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _evaluate(inner, values)
        case ast.UnaryOp(operand=inner):
            return -_evaluate(inner, values)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_evaluate(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_evaluate(part, values) for part in parts)
        case ast.Compare():
            return _compare(node, values)
        case ast.Call():
            return values.get(_find_asked(node) or "") is not None
    raise _UnknownError


def _compare(node: ast.Compare, values: Mapping[str, Json]) -> bool:
    left = _evaluate(node.left, values)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(right_node, values)
        if not _COMPARED[type(op)](left, right):
            return False
        left = right
    return True


def _look_up(name: str, values: Mapping[str, Json]) -> Json:
    value = values.get(name)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise _UnknownError
    return value


def _find_asked(call: ast.Call) -> str | None:
    """The name that `given(name)` asks about; None for every other call."""
    match call:
        case ast.Call(func=ast.Name(id="given"), args=[ast.Name() | ast.Attribute() as name], keywords=[]):
            return _spell(name)
    return None


def _spell(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_spell(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _collect(node: ast.AST, found: list[str]) -> None:
    if isinstance(node, ast.Call):
        found.append(_find_asked(node) or "?")
        return
    if isinstance(node, ast.Name | ast.Attribute):
        found.append(_spell(node))
        return
    for child in ast.iter_child_nodes(node):
        _collect(child, found)
