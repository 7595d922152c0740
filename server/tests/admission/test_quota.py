"""The gate `quota`: what can never fit is refused, what is over now is admitted and told."""

from typing import Any

from server.tests.admission.test_gates import ANN, decide, fleet, node, pools, spec
from starforge_console.domain.quota import GIB, Holder, Limit, Member, Quotas, Usage

TEAM = Holder("team", "ml")


def ask(limit: Limit, held: list[tuple[int, str, int]], **pool: Any) -> dict[str, list[str]]:
    quotas = Quotas(limits={TEAM: limit}, members={ANN.user_id: Member("ann", "ml"), 2: Member("bob", "ml")})
    asked = spec(resources=pools({"gpus_per_node": 4, "series": "h200"} | pool))
    return dict(decide(asked, fleet(node("big", gpus=8)), usage=Usage(quotas, held)))


def test_what_fits_passes() -> None:
    assert ask(Limit(gpus=8), [(2, "jbob", 4)]) == {}


def test_what_could_never_start_is_refused() -> None:
    assert ask(Limit(gpus=3), []) == {"quota": ["quota_never"]}
    assert ask(Limit(gpu_hours=0), []) == {"quota": ["quota_never"]}
    assert ask(Limit(series=frozenset({"l40s"})), []) == {"quota": ["quota_never"]}
    assert ask(Limit(profiles=frozenset({"cpu", "l40s"})), []) == {"quota": ["quota_never"]}
    assert ask(Limit(profiles=frozenset({"h200"})), []) == {}


def test_what_comes_while_storage_is_full_is_admitted_and_told_how_to_free_some() -> None:
    quotas = Quotas(limits={TEAM: Limit(storage_gib=1)}, members={ANN.user_id: Member("ann", "ml")})
    asked, usage = (
        spec(resources=pools({"gpus_per_node": 4, "series": "h200"})),
        Usage(quotas, stored={ANN.user_id: 3 * GIB}),
    )
    (warning,) = dict(decide(asked, fleet(node("big", gpus=8)), usage=usage))["warned"]
    assert warning.startswith("it waits in the queue: quota of team ml: 3.0 GiB of 1 GiB on the storage held")


def test_what_is_over_it_now_is_admitted_and_told_who_holds_what() -> None:
    (warning,) = ask(Limit(gpus=8), [(2, "jbob", 8)])["warned"]
    assert warning.startswith("it waits in the queue: quota of team ml: 8 of 8 GPUs in use (jbob of bob: 8 GPUs)")
