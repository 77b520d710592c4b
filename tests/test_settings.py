"""Settings: defaults, validation, and the values stored in a manifest."""

import numpy as np
import pytest

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.settings import Settings, resolve_settings
from e2graphrag_integrations.text.chunking import chunk_spans, content_spans
from e2graphrag_integrations.tree import ContentGroups, FixedGroups
from strategies import WordCounter

CONTENT = Settings(chunking="content", grouping="content")
TEXT = " ".join(f"Sentence {number} of the text." for number in range(60))


def resolve(manifest, **requested):
    return resolve_settings(requested, manifest, "x.e2g")


def test_the_defaults_are_those_of_the_paper():
    assert Settings() == Settings(1200, 100, 5, 300)
    assert (Settings().chunking, Settings().grouping) == ("fixed", "fixed")
    assert (Settings().overlap, Settings().groups) == (100, FixedGroups(5))


@pytest.mark.parametrize(
    ("size", "overlap"), [(1, 0), (60, 30), (199, 99), (200, 100), (1200, 100)]
)
def test_the_default_overlap_is_at_most_half_a_chunk(size, overlap):
    assert Settings(chunk_size=size).overlap == overlap


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunk_size": 100, "chunk_overlap": 100}, "chunk_overlap=100"),
        ({"chunk_overlap": -1}, "chunk_overlap=-1"),
        ({"chunk_size": 0, "chunk_overlap": 0}, "chunk_size=0"),
        ({"group_size": 1}, "group_size=1"),
        ({"summary_tokens": 0}, "summary_tokens=0"),
        ({"chunk_size": 1200.0}, r"chunk_size=1200\.0 must be "),
        ({"chunk_size": "1200"}, "chunk_size='1200' must be "),
        ({"chunk_size": 2**63}, "chunk_size=.* from 1 to 10,000,000"),
        ({"summary_tokens": 10**5000}, "summary_tokens="),
        ({"group_size": True}, "group_size=True must be "),
    ],
)
def test_an_invalid_number_is_rejected_by_name(values, message):
    with pytest.raises(InvalidInputError, match=message):
        Settings(**values)


@pytest.mark.parametrize("name", ["chunking", "grouping"])
@pytest.mark.parametrize("value", ["Content", "", "none", None, 5, True, ["content"], b"content"])
def test_an_unknown_cut_is_rejected_with_the_valid_choices(name, value):
    with pytest.raises(InvalidInputError, match=f"{name}=.*: choose one of fixed, content"):
        Settings(**{name: value})


def test_numpy_integers_become_plain_integers():
    settings = Settings(chunk_size=np.int64(50), chunk_overlap=np.int32(5))
    assert settings == Settings(50, 5)
    assert {type(settings.chunk_size), type(settings.chunk_overlap)} == {int}


@pytest.mark.parametrize("grouping", ["fixed", "content"])
def test_content_chunks_cannot_overlap(grouping):
    settings = Settings(chunk_size=50, chunking="content", grouping=grouping)
    assert (settings.chunk_overlap, settings.overlap) == (0, 0)
    assert settings == Settings(50, 0, chunking="content", grouping=grouping)
    with pytest.raises(InvalidInputError, match=r"chunk_overlap=7 .* cannot overlap; omit"):
        Settings(chunk_size=50, chunk_overlap=7, chunking="content", grouping=grouping)


def test_fixed_chunks_overlap_under_content_groups():
    assert Settings(grouping="content").overlap == 100
    assert Settings(50, 7, grouping="content").overlap == 7


def test_spans_and_groups_follow_the_settings():
    counter = WordCounter()
    fixed, content = Settings(30, 6, 3), Settings(30, None, 3, chunking="content")
    assert fixed.spans(TEXT, counter) == chunk_spans(TEXT, counter, chunk_size=30, chunk_overlap=6)
    assert content.spans(TEXT, counter) == content_spans(TEXT, counter, chunk_size=30)
    assert fixed.spans(TEXT, counter) != content.spans(TEXT, counter)
    assert content.groups == FixedGroups(3)
    assert Settings(group_size=3, grouping="content").groups == ContentGroups(3)


# Manifests


@pytest.mark.parametrize("chunking", ["fixed", "content"])
@pytest.mark.parametrize("grouping", ["fixed", "content"])
def test_a_manifest_round_trips(chunking, grouping):
    settings = Settings(50, None if chunking == "content" else 7, 3, 20, chunking, grouping)
    manifest = settings.to_manifest()
    assert all(isinstance(value, str) for value in manifest.values())
    assert (manifest["chunking"], manifest["grouping"]) == (chunking, grouping)
    assert Settings.from_manifest(manifest, "x.e2g") == settings
    assert resolve(manifest) == settings
    assert resolve(manifest, chunking=chunking, grouping=grouping) == settings


def test_requested_values_apply_to_a_new_index():
    requested = {"chunking": "content", "grouping": "content", "chunk_size": 50}
    assert resolve({}, **requested) == Settings(50, 0, chunking="content", grouping="content")


def test_requesting_the_stored_value_is_allowed():
    manifest = Settings(group_size=3).to_manifest()
    assert resolve(manifest, group_size=3, chunk_size=None).group_size == 3


def test_a_manifest_without_a_setting_is_damaged():
    manifest = Settings().to_manifest()
    del manifest["chunking"], manifest["grouping"]
    with pytest.raises(CorruptStoreError, match=r"x\.e2g lacks the settings chunking, grouping"):
        resolve(manifest)


@pytest.mark.parametrize(
    ("manifest", "requested", "message"),
    [
        (Settings(group_size=3).to_manifest(), {"group_size": 4}, "group_size=3, not 4"),
        (Settings().to_manifest(), {"chunking": "content"}, "chunking=fixed, not 'content': omit"),
        (Settings().to_manifest(), {"grouping": "content"}, "grouping=fixed, not 'content': omit"),
        (CONTENT.to_manifest(), {"chunking": "fixed"}, "chunking=content, not 'fixed'"),
        (CONTENT.to_manifest(), {"grouping": "fixed"}, "grouping=content, not 'fixed'"),
        (CONTENT.to_manifest(), {"grouping": "other"}, "grouping=content, not 'other'"),
        (CONTENT.to_manifest(), {"chunk_overlap": 100}, "chunk_overlap=0, not 100"),
    ],
)
def test_requesting_another_value_than_the_stored_one_fails(manifest, requested, message):
    with pytest.raises(SettingsMismatchError, match=rf"x\.e2g was built with {message}"):
        resolve(manifest, **requested)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, v) for name in ("chunking", "grouping") for v in ("abc", "", "Content", "None")),
        ("chunk_size", "abc"),
        ("chunk_size", "content"),
        ("chunk_size", "fixed"),
    ],
)
def test_an_unreadable_value_in_a_manifest_means_a_damaged_index(name, value):
    with pytest.raises(CorruptStoreError, match=rf"x\.e2g contains the invalid .*{name}='{value}'"):
        resolve(CONTENT.to_manifest() | {name: value})


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunking": "7"},
        {"grouping": "-1"},
        {"chunk_overlap": "5"},  # content chunks cannot overlap
        {"chunk_size": "0"},
        {"group_size": "1"},
    ],
)
def test_invalid_settings_in_a_manifest_mean_a_damaged_index(wrong):
    with pytest.raises(CorruptStoreError, match=r"x\.e2g contains invalid settings"):
        resolve(CONTENT.to_manifest() | wrong)
