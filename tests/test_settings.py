import numpy as np
import pytest

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.settings import Settings, resolve_settings


def test_defaults_are_those_of_the_paper():
    assert Settings() == Settings(1200, 100, 5, 300)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunk_size": 100}, "chunk_overlap=100"),
        ({"chunk_overlap": -1}, "chunk_overlap=-1"),
        ({"chunk_size": 0, "chunk_overlap": 0}, "chunk_size=0"),
        ({"group_size": 1}, "group_size=1"),
        ({"summary_tokens": 0}, "summary_tokens=0"),
        ({"chunk_size": 1200.0}, r"chunk_size=1200\.0 must be a whole number"),
        ({"chunk_size": "1200"}, "chunk_size='1200' must be a whole number"),
        ({"chunk_size": 2**63}, "chunk_size=.* from 1 to 10,000,000"),
        ({"summary_tokens": 10**5000}, "summary_tokens="),
        ({"group_size": True}, "group_size=True must be a whole number"),
    ],
)
def test_values_out_of_range_are_refused_by_name(values, message):
    with pytest.raises(InvalidInputError, match=message):
        Settings(**values)


def test_a_manifest_gives_back_the_settings_it_was_made_of():
    made = Settings(50, 7, 3, 20)
    assert resolve_settings({}, made.to_manifest(), "x.e2g") == made


def test_what_is_asked_for_fills_what_the_manifest_leaves_open():
    found = resolve_settings({"chunk_size": 50, "chunk_overlap": 5}, {"group_size": "3"}, "x.e2g")
    assert found == Settings(50, 5, 3, 300)


def test_asking_for_what_the_index_was_made_with_is_fine():
    manifest = Settings(group_size=3).to_manifest()
    assert (
        resolve_settings({"group_size": 3, "chunk_size": None}, manifest, "x.e2g").group_size == 3
    )


def test_another_value_than_the_index_was_made_with_is_an_error():
    message = r"x\.e2g was made with group_size=3, not 4"
    with pytest.raises(SettingsMismatchError, match=message):
        resolve_settings({"group_size": 4}, Settings(group_size=3).to_manifest(), "x.e2g")


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInputError, match="'chunksize'; there are chunk_size"):
        resolve_settings({"chunksize": 5}, {}, "x.e2g")


def test_numbers_of_numpy_become_plain():
    made = Settings(chunk_size=np.int64(50), chunk_overlap=np.int32(5))
    assert made == Settings(50, 5)
    assert {type(made.chunk_size), type(made.chunk_overlap)} == {int}


def test_a_manifest_that_is_no_number_is_a_damaged_index():
    with pytest.raises(CorruptStoreError, match=r"x\.e2g says chunk_size='abc'"):
        resolve_settings({}, {"chunk_size": "abc"}, "x.e2g")
