"""Arrays in a folder load exactly as saved, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from e2graphrag_integrations.snapshot import array_files
from e2graphrag_integrations.snapshot.array_files import (
    load_arrays,
    remove_temporary_folders,
    save_arrays,
)
from strategies import examples, quick

META = {"generation": "0f", "titles": ["Ä", None], "records": [{"n": 1}]}
SMALL = {"a": np.arange(3), "b": np.ones((2, 2), dtype=np.float32), "c": np.array([True])}

numbers = st.sampled_from([np.int64, np.int32, np.uint8, np.float32, np.float64, np.bool_])
some_arrays = st.dictionaries(
    st.sampled_from(["ids", "node_level", "edges_data", "x"]),
    numbers.flatmap(
        lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, min_side=0))
    ),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@pytest.fixture
def folder(tmp_path):
    """Save a small folder."""
    save_arrays(tmp_path / "f", SMALL, META)
    return tmp_path / "f"


def equal(loaded, arrays, meta):
    if loaded is None:
        return False
    same = loaded[0].keys() == arrays.keys() and all(
        loaded[0][name].dtype == array.dtype
        and loaded[0][name].shape == array.shape
        and loaded[0][name].tobytes() == array.tobytes()
        for name, array in arrays.items()
    )
    return same and loaded[1] == meta


@quick
@given(some_arrays, st.dictionaries(st.text(max_size=4), values, max_size=3))
def test_arrays_of_all_types_and_shapes_round_trip(arrays, meta):
    with tempfile.TemporaryDirectory() as home:
        save_arrays(Path(home) / "f", arrays, meta)
        assert equal(load_arrays(Path(home) / "f"), arrays, meta)
        assert [one.name for one in Path(home).iterdir()] == ["f"]


@pytest.mark.parametrize("shape", [(0,), (0, 0), (0, 384), (3, 0)])
def test_empty_arrays_keep_their_shape(tmp_path, shape):
    save_arrays(tmp_path / "f", {"a": np.empty(shape, dtype=np.float32)}, {})
    arrays, meta = load_arrays(tmp_path / "f")
    assert (arrays["a"].shape, arrays["a"].dtype, meta) == (shape, np.float32, {})


def test_strided_and_transposed_arrays_round_trip(tmp_path):
    array = np.arange(24).reshape(4, 6)
    arrays = {"strided": array[1::2, ::-1], "transposed": array.T}
    save_arrays(tmp_path / "f", arrays, {})
    assert equal(load_arrays(tmp_path / "f"), arrays, {})


def test_large_arrays_are_memory_mapped_and_read_only(tmp_path):
    large = np.arange(1 << 17)  # more than 1 MiB with its header
    save_arrays(tmp_path / "f", {"large": large, "small": large[:10]}, {})
    arrays, _ = load_arrays(tmp_path / "f")
    assert np.array_equal(arrays["large"], large)
    assert type(arrays["large"]) is np.ndarray
    assert isinstance(arrays["large"].base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        arrays["large"][0] = 7
    assert arrays["small"].tolist() == list(range(10))
    assert not isinstance(arrays["small"].base, np.memmap)


def test_a_mapped_array_survives_the_deletion_of_its_folder(tmp_path):
    large = np.arange(1 << 18)
    save_arrays(tmp_path / "f", {"large": large}, {})
    arrays, _ = load_arrays(tmp_path / "f")
    save_arrays(tmp_path / "f", {"large": large[::-1]}, {})
    assert np.array_equal(arrays["large"], large)
    shutil.rmtree(tmp_path / "f")
    assert np.array_equal(arrays["large"], large)


def test_saving_replaces_an_existing_folder(folder):
    (folder / "old.npy").write_bytes(b"a file of another format")
    (folder / "words").mkdir()
    save_arrays(folder, {"z": np.zeros(2)}, {})
    assert sorted(file.name for file in folder.iterdir()) == ["meta.json", "z.npy"]
    assert equal(load_arrays(folder), {"z": np.zeros(2)}, {})


def test_a_folder_has_the_default_permissions(folder):
    umask = os.umask(0)
    os.umask(umask)
    assert folder.stat().st_mode & 0o777 == 0o777 & ~umask


# Damage


@examples(150)
@given(
    st.sampled_from(["meta.json", "a.npy", "b.npy", "c.npy"]), st.integers(0), st.integers(1, 255)
)
def test_a_changed_byte_is_detected_or_harmless(name, at, bits):
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "f" / name
        save_arrays(file.parent, SMALL, META)
        damaged = bytearray(file.read_bytes())
        damaged[at % len(damaged)] ^= bits
        file.write_bytes(damaged)
        found = load_arrays(file.parent)
        assert found is None or (name == "meta.json" and equal(found, SMALL, META))


def test_a_flipped_bit_anywhere_is_detected_or_harmless(folder):
    for file in folder.iterdir():
        original = file.read_bytes()
        for at in range(len(original)):
            damaged = bytearray(original)
            damaged[at] ^= 1 << at % 8
            file.write_bytes(damaged)
            found = load_arrays(folder)
            # Different JSON can have the same value, such as \u00c4 and \u00C4.
            assert found is None or (file.name == "meta.json" and equal(found, SMALL, META))
        file.write_bytes(original)
    assert equal(load_arrays(folder), SMALL, META)


def test_of_a_large_file_only_some_blocks_are_checked(tmp_path, monkeypatch):
    for constant, value in (("_BLOCK", 64), ("_LARGE", 512), ("_LARGE_STEP", 256)):
        monkeypatch.setattr(array_files, constant, value)
    folder = tmp_path / "f"
    save_arrays(folder, {"a": np.zeros(1000, dtype=np.uint8)}, META)
    content = (folder / "a.npy").read_bytes()
    for at, is_checked in ((512, True), (575, True), (576, False), (767, False), (768, True)):
        (folder / "a.npy").write_bytes(content[:at] + b"\1" + content[at + 1 :])
        assert (load_arrays(folder) is None) == is_checked
    (folder / "a.npy").write_bytes(content[:-1])
    assert load_arrays(folder) is None


@pytest.mark.parametrize("name", ["meta.json", "a.npy", "b.npy"])
def test_a_truncated_or_missing_file_is_detected(folder, name):
    original = (folder / name).read_bytes()
    for length in range(len(original)):
        (folder / name).write_bytes(original[:length])
        assert load_arrays(folder) is None
    (folder / name).write_bytes(original + b"\0")
    assert load_arrays(folder) is None
    (folder / name).unlink()
    assert load_arrays(folder) is None
    (folder / name).mkdir()
    assert load_arrays(folder) is None


def test_an_empty_or_missing_folder_loads_as_none(tmp_path):
    assert load_arrays(tmp_path) is None
    assert load_arrays(tmp_path / "none") is None
    (tmp_path / "file").write_text("{}")
    assert load_arrays(tmp_path / "file") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "null",
        "{}",
        '{"arrays": {}}',
        '{"arrays": [], "meta": {}}',
        '{"arrays": {"a": 0}, "meta": {}}',
        '{"arrays": {"none": 0}, "meta": {}}',
        '{"arrays": {"a\\u0000": 0}, "meta": {}}',
        "[" * 200_000,
    ],
)
def test_metadata_with_invalid_contents_loads_as_none(folder, text):
    """The checksum of the metadata is correct."""
    wrapped = {"format": array_files.FORMAT, "checksum": zlib.crc32(text.encode()), "text": text}
    (folder / "meta.json").write_text(json.dumps(wrapped))
    assert load_arrays(folder) is None


@pytest.mark.parametrize(
    "content", ["", "[]", "7", "null", '{"format": 4}', "[" * 200_000, "\udcff\udcfe", "1" * 5000]
)
def test_metadata_that_is_not_an_envelope_loads_as_none(folder, content):
    (folder / "meta.json").write_bytes(content.encode(errors="surrogateescape"))
    assert load_arrays(folder) is None


@pytest.mark.parametrize("other", [array_files.FORMAT - 1, array_files.FORMAT + 1, None, "4"])
def test_another_format_version_loads_as_none(folder, other):
    wrapped = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(wrapped | {"format": other}))
    assert load_arrays(folder) is None
    (folder / "meta.json").write_text(json.dumps(wrapped))
    assert load_arrays(folder) is not None


def test_object_arrays_are_neither_saved_nor_loaded(tmp_path, folder):
    objects = np.asarray([{"a": 1}], dtype=object)
    with pytest.raises(ValueError, match="allow_pickle"):
        save_arrays(tmp_path / "g", {"a": objects}, {})
    assert [one.name for one in tmp_path.iterdir()] == ["f"]
    np.save(folder / "a.npy", objects, allow_pickle=True)
    content = json.loads(json.loads((folder / "meta.json").read_text())["text"])
    content["arrays"]["a"] = zlib.crc32((folder / "a.npy").read_bytes())
    text = json.dumps(content)
    wrapped = {"format": array_files.FORMAT, "checksum": zlib.crc32(text.encode()), "text": text}
    (folder / "meta.json").write_text(json.dumps(wrapped))
    assert load_arrays(folder) is None


# Failures


@pytest.mark.parametrize("failing_at", [1, 2, 3])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_save_keeps_the_existing_folder(folder, monkeypatch, failing_at, error):
    real, calls = np.save, []

    def full(*arguments, **options):
        calls.append(arguments)
        real(*arguments, **options)
        if len(calls) == failing_at:
            raise error

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(type(error)):
        save_arrays(folder, {name: array * 0 for name, array in SMALL.items()}, {})
    assert equal(load_arrays(folder), SMALL, META)
    assert [one.name for one in folder.parent.iterdir()] == ["f"]


@pytest.mark.parametrize("method", ["mkdir", "write_text", "rename"])
def test_a_failed_save_leaves_no_temporary_folder(tmp_path, monkeypatch, method):
    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, method, refuse)
    with pytest.raises(PermissionError):
        save_arrays(tmp_path / "f", SMALL, META)
    assert list(tmp_path.iterdir()) == []


def test_saving_writes_a_temporary_folder_and_renames_it(folder, monkeypatch):
    rename, write, checks = Path.rename, Path.write_text, []

    def checked_write(temporary, *arguments, **options):
        checks.append(equal(load_arrays(folder), SMALL, META))  # readers still load the old folder
        return write(temporary, *arguments, **options)

    def checked_rename(source, target):
        checks.append(source.parent == target.parent)
        if source != folder:  # the old folder was moved away just before
            checks.append(equal(load_arrays(source), {"z": SMALL["a"]}, {}))
        return rename(source, target)

    monkeypatch.setattr(Path, "write_text", checked_write)
    monkeypatch.setattr(Path, "rename", checked_rename)
    save_arrays(folder, {"z": SMALL["a"]}, {})
    assert checks == [True, True, True, True]


def test_a_missing_parent_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        save_arrays(tmp_path / "missing" / "f", SMALL, META)
    assert not (tmp_path / "missing").exists()


# Temporary folders


def test_only_temporary_folders_older_than_a_day_are_deleted(folder):
    home = folder.parent
    day = 24 * 60 * 60
    ages = {
        f"new-{'0' * 32}": day + 60,
        f"new-{'1' * 32}": day - 60,
        f"new-{'2' * 32}": 0,
        f"new-{'3' * 31}": day * 9,
        f"old-{'4' * 32}": 0,
        f"old-{'6' * 31}": day * 9,
        f"new-{'5' * 32}-mine": day * 9,
        "f": day * 9,
    }
    for name, age in ages.items():
        (home / name).mkdir(exist_ok=True)
        (home / name / "file").write_text("incomplete")
        os.utime(home / name, (time.time() - age,) * 2)
    remove_temporary_folders(home)
    assert {one.name for one in home.iterdir()} == set(ages) - {
        f"new-{'0' * 32}",
        f"old-{'4' * 32}",
    }


def test_a_temporary_folder_that_another_process_deletes_is_ignored(tmp_path, monkeypatch):
    for digit in "01":
        (tmp_path / f"new-{digit * 32}").mkdir()
        os.utime(tmp_path / f"new-{digit * 32}", (0, 0))
    real, deleted = Path.stat, []

    def stat(path, **options):
        if not deleted and path.name.startswith("new-"):
            deleted.append(path)
            path.rmdir()
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    remove_temporary_folders(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_python_fails_to_parse_loads_nothing(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise SystemError("AST constructor recursion depth mismatch (before=23, after=20)")

    save_arrays(tmp_path / "x", SMALL, META)
    with monkeypatch.context() as patch:
        patch.setattr(np, "load", fail)
        assert load_arrays(tmp_path / "x") is None
    assert load_arrays(tmp_path / "x") is not None
