"""One command for several jobs: each has a result of its own, and one that is refused keeps no other from its own."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from starforge.cli.output import print_error, print_json
from starforge.contract.api import JobView
from starforge.errors import BackendUnreachable, SignInRequired, StarForgeError

jobs_argument: Final = click.argument("jobs", nargs=-1, required=True, metavar="JOB...")


def do_each(
    jobs: Sequence[str], act: Callable[[str], JobView], tell: Callable[[JobView], None], *, as_json: bool
) -> int:
    """Do `act` to each of the jobs, once, and tell of it; gives the exit code: 1 where one of several was refused.

    A single job raises what `act` raises. Of several, what no other would fare better with ends the command too.
    """
    names = list(dict.fromkeys(jobs))
    if len(names) == 1:
        view = act(names[0])
        if as_json:
            print_json({"job": view.model_dump(mode="json")})
        else:
            tell(view)
        return 0
    results = [_do(name, act, None if as_json else tell) for name in names]
    if as_json:
        print_json({"jobs": results})
    return 1 if any(one["error"] for one in results) else 0


def _do(name: str, act: Callable[[str], JobView], tell: Callable[[JobView], None] | None) -> dict[str, Any]:
    try:
        view = act(name)
    except (BackendUnreachable, SignInRequired):
        raise
    except StarForgeError as error:
        if tell is not None:
            print_error(error, as_json=False)
        told = {"code": error.code, "what": error.what, "why": error.why, "next_step": error.next_step}
        return {"id": name, "job": None, "error": told}
    if tell is not None:
        tell(view)
    return {"id": name, "job": view.model_dump(mode="json"), "error": None}
