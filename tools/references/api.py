"""The page docs/dev/api.md: every route of the API, for people; openapi.json beside it is for programs."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from starforge_console.web.api import build_document

_HEAD: Final = """\
# HTTP API

Generated from the console's own routes; `make fix` writes it anew and `make check` compares. The same for programs,
with every schema and an example of each message, is [openapi.json](openapi.json).

Every request but those to `/api/v1/meta` and `/healthz` carries a personal token: `Authorization: Bearer …`. What it
may do is in its scopes, and in its user's role. An answer that is no success is `application/problem+json` with `code`,
`title`, `detail` and `next_step`: [what each code means](errors.md). Any route may refuse with 401, 403, 422, 426, 429
or 503. Times are Unix seconds.
"""
_EVERYWHERE: Final = frozenset({"401", "403", "422", "426", "429", "503"})
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def build_page() -> str:
    """The whole page, a section for each tag in the order of their names."""
    document = build_document()
    sections: dict[str, list[str]] = {}
    for path, methods in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in methods:
                route = methods[method]
                sections.setdefault(route.get("tags", ["other"])[0], []).append(_build_route(method, path, route))
    parts = [f"\n## {tag.capitalize()}\n{''.join(routes)}" for tag, routes in sorted(sections.items())]
    return _HEAD + "".join(parts)


def _build_route(method: str, path: str, route: Mapping[str, Any]) -> str:
    lines = [f"\n### `{method.upper()} {path}`\n\n{' '.join(route.get('description', route['summary']).split())}\n"]
    rows = list(_build_rows(route.get("parameters", ())))
    if rows:
        lines.append("\n| parameter | in | what it is |\n|---|---|---|\n" + "".join(rows))
    body = route.get("requestBody", {}).get("content", {})
    takes = ", ".join(f"`{kind}`{_name_schema(one.get('schema', {}))}" for kind, one in body.items())
    lines.append(f"\nTakes {takes}. " if takes else "\n")
    good = {code: one for code, one in route["responses"].items() if code.startswith(("1", "2", "3"))}
    answers = [
        f"{code}" + "".join(f" `{kind}`{_name_schema(inner.get('schema', {}))}" for kind, inner in _contents(one))
        for code, one in good.items()
    ]
    answers = [
        f"{code}" + "".join(f" `{kind}`{_name_schema(inner.get('schema', {}))}" for kind, inner in _contents(one))
        for code, one in good.items()
    ]
    refused = sorted(code for code in route["responses"] if code not in good and code not in _EVERYWHERE)
    lines.append(f"Answers {'; '.join(answers)}." + (f" Refuses with {', '.join(refused)} too." if refused else ""))
    lines.append("\n")
    return "".join(lines)


def _contents(answer: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return list(answer.get("content", {}).items())


def _build_rows(parameters: list[Mapping[str, Any]]) -> Iterator[str]:
    for one in parameters:
        if one["in"] == "header":
            continue
        what = [one["description"]] if "description" in one else []
        schema = one.get("schema", {})
        if one.get("required") and one["in"] != "path":
            what.append("required")
        if schema.get("default") not in (None, ""):
            what.append(f"default {schema['default']}")
        if "maximum" in schema and schema["maximum"] < 1 << 53:
            what.append(f"at most {schema['maximum']}")
        yield f"| `{one['name']}` | {one['in']} | {'; '.join(what).replace('|', '&#124;') or '-'} |\n"


def _name_schema(schema: Mapping[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f" {name}" if name else ""
