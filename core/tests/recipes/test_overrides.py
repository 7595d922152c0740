"""Settings in hydra's grammar."""

import pytest
from pydantic import JsonValue

from starforge.errors import LaunchRefused
from starforge.recipes.adapters.overrides import build_overrides, dump_value, flatten_extra
from starforge.recipes.catalog import load_method


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1e-5, "1.0e-05"),
        ("token-mean", "token-mean"),
        ("/data/a.parquet", "/data/a.parquet"),
        ("null", "'null'"),
        ("off", "'off'"),
        ("1e-5", "'1e-5'"),
        ("", "''"),
        ("it's", r"'it\'s'"),
        ("a\\b", r"'a\b'"),
        ("a\\", r"'a\\'"),
        ("a\\'b", r"'a\\\'b'"),
        ("${a.b}", "'${a.b}'"),
        (["console", "file"], "[console,file]"),
        ([0.9, "a,b", ["c"]], "[0.9,'a,b',[c]]"),
        ({}, "{}"),
        ([{"a": 1, "b.c": "d e"}], "[{a:1,b.c:'d e'}]"),
    ],
)
def test_a_value_is_written_so_that_it_arrives_as_what_it_was(value: JsonValue, text: str) -> None:
    assert dump_value(value) == text


def test_members_of_a_map_are_set_one_by_one_also_where_there_are_none_yet() -> None:
    settings: dict[str, JsonValue] = {"b": 1, "a.map": {"x": {"y": 2}, "z": []}, "a.empty": {}}
    assert build_overrides(settings, {"+new.key": 3}) == (
        "a.empty={}",
        "b=1",
        "++a.map.x.y=2",
        "++a.map.z=[]",
        "+new.key=3",
    )


def test_a_key_that_hydra_could_not_read_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="cannot be a key inside a list"):
        dump_value([{"a b": 1}])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"trainer": {"logger": "wandb"}}, "'trainer.logger', which is set by the platform"),
        ({"+trainer.nnodes": 4}, "'trainer.nnodes', which is set by the platform"),
        ({"++hydra.run.dir": "x"}, "'hydra.run.dir', which is set by the platform"),
        ({"trainer": []}, "below it 'trainer.n_gpus_per_node' is set by the platform"),
        ({"trainer": {"save_freq": 3}}, "'trainer.save_freq', which is a hyperparameter of its own"),
        ({"~critic": None}, "which is no name of a setting"),
        ({"a b": 1}, "which is no name of a setting"),
    ],
)
def test_what_extra_must_not_hold_is_refused_however_it_is_written(extra: dict[str, JsonValue], words: str) -> None:
    with pytest.raises(LaunchRefused) as refused:
        flatten_extra(load_method("verl/grpo").at("0.9.1"), extra)
    assert words in str(refused.value)
