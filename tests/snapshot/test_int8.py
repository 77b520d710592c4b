"""Snapshots with one byte per component: `E2GraphRAG.open(vectors="int8")`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.search.int8 import INT8, Int8Vectors, RescoredSearch
from e2graphrag_integrations.snapshot import files, incremental
from e2graphrag_integrations.snapshot.array_files import load_arrays, save_arrays
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.conversion import snapshot_arrays, snapshot_meta
from fakes import NameExtractor
from strategies import examples

NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fritz")
DOCUMENTS = [
    SourceDocument(
        f"d{n:03}",
        f"{NAMES[n % 6]} met {NAMES[n % 5]} at gate {n}. Then {NAMES[n % 4]} lost ticket {n * 7}.",
        metadata={"part": n % 3},
    )
    for n in range(200)
]
QUESTIONS = ["Who met Bert at gate 7?", "Who lost ticket 700?", "Where did Cleo meet Anna?"]


def open_int8(path=":memory:", vectors="int8"):
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=8, chunk_overlap=2),
        vectors=vectors,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "i.e2g"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """An index file with all documents and without a snapshot."""
    made = tmp_path_factory.mktemp("int8") / "i.e2g"
    with open_int8(made) as rag:
        rag.add(DOCUMENTS)
    return made


@pytest.fixture
def filled(made_once, path):
    """A copy of the index file with all documents."""
    return Path(shutil.copyfile(made_once, path))


def base_of(rag):
    return rag._session._generations.newest().base


def assert_equals_a_build(rag):
    base, built = base_of(rag), build_snapshot(rag.store, kind=INT8)
    actual, expected = snapshot_arrays(base), snapshot_arrays(built)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(actual[name]), array, err_msg=name)
        assert actual[name].dtype == array.dtype, name
    assert actual["vectors"].dtype == np.int8
    assert snapshot_meta(base) == snapshot_meta(built)


def answers(rag, **options):
    found = [rag.retrieve(question, k=8, **options).nodes for question in QUESTIONS]
    ids = [[node.node_id for node in nodes] for nodes in found]
    return ids, np.asarray([[node.relevance for node in nodes] for nodes in found])


def assert_similar_answers(one, other):
    """Compare the nodes but one, and the relevance of those in both.

    Ranks beyond the first 64 windows, of which this index has many that are alike, may differ.
    """
    for ids, relevances, others, expected in zip(*one, *other, strict=True):
        known = dict(zip(others, expected, strict=True))
        both = [
            (known[id_], value) for id_, value in zip(ids, relevances, strict=True) if id_ in known
        ]
        assert len(both) >= len(ids) - 1
        np.testing.assert_allclose(*zip(*both, strict=True), atol=1e-6)


def assert_same_answers(one, other):
    assert one[0] == other[0]
    np.testing.assert_allclose(one[1], other[1], atol=1e-6)


def test_answers_and_relevances_are_those_of_float32(filled):
    with open_int8(filled, None) as rag:
        expected, in_scope = answers(rag), answers(rag.scoped({"part": 1}))
        filtered = answers(rag, where={"part": 2})
    with open_int8(filled) as rag:
        assert_same_answers(answers(rag), expected)
        assert_similar_answers(answers(rag, where={"part": 2}), filtered)
        assert_similar_answers(answers(rag.scoped({"part": 1})), in_scope)
        assert isinstance(rag._session.snapshot().dense, RescoredSearch)


@pytest.mark.slow
def test_an_index_in_memory_has_one_byte_per_component():
    with open_int8(vectors=None) as rag:
        rag.add(DOCUMENTS)
        expected = answers(rag)
    with open_int8() as rag:
        assert not rag.retrieve("Anna").nodes
        rag.add(DOCUMENTS)
        assert_same_answers(answers(rag), expected)
        assert base_of(rag).dense.kind is INT8


@pytest.mark.slow
def test_the_snapshots_of_both_kinds_lie_side_by_side(filled):
    with open_int8(filled) as rag:
        answers(rag)
        generation = rag.store.generation
    folder = Path(f"{filled}.snapshot")
    assert [one.name for one in folder.iterdir()] == ["int8"]
    arrays, _ = load_arrays(folder / "int8" / generation)
    floats = len(arrays["vectors"]) * arrays["vectors"].shape[1] * 4
    assert arrays["vectors"].nbytes + arrays["vector_scales"].nbytes < 0.26 * floats
    with open_int8(filled, None) as rag:
        answers(rag)
    assert sorted(one.name for one in folder.iterdir()) == sorted([generation, "int8"])
    with open_int8(filled) as rag:
        answers(rag)
        assert rag.verify().ok
    assert sorted(one.name for one in folder.iterdir()) == sorted([generation, "int8"])


@pytest.mark.slow
def test_a_snapshot_of_float32_is_converted(filled, monkeypatch):
    with open_int8(filled, None) as rag:
        expected = answers(rag)

    def build(*_, **__):
        raise AssertionError("no row should be read")

    with open_int8(filled) as rag:
        with monkeypatch.context() as patch:
            patch.setattr(files, "build_snapshot", build)
            patch.setattr(files, "bm25_from_store", build)
            assert_same_answers(answers(rag), expected)
        assert_equals_a_build(rag)


def small_segments(patch):
    patch.setattr(incremental, "_MIN_SEGMENTED", 1)
    patch.setattr(incremental, "_MIN_KEPT", 0.0)
    patch.setattr(files, "_MIN_UNCHANGED", 0.0)
    patch.setattr(files, "_MAX_SEGMENTS", 3)


texts = st.lists(st.sampled_from(NAMES), min_size=1, max_size=30).map(" ".join)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd"), texts),
        st.tuples(st.just("delete"), st.sampled_from("abcd"), st.just("")),
        st.tuples(st.just("reopen"), st.just(""), st.just("")),
        st.tuples(st.just("merge"), st.just(""), st.just("")),
    ),
    max_size=8,
)


@examples(15)
@given(st.lists(texts, min_size=2, max_size=4), changes, st.booleans())
def test_any_history_gives_the_snapshot_of_a_build(first, history, segments):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if segments:
            small_segments(patch)
        rag = open_int8(Path(folder) / "i.e2g")
        rag.add([SourceDocument(f"first {n}", text) for n, text in enumerate(first)])
        rag.retrieve("Anna")
        for kind, name, text in history:
            is_known = name in rag.document_ids
            if kind == "put":
                (rag.update if is_known else rag.add)(SourceDocument(name, text))
            elif kind == "delete":
                rag.delete([name] if is_known else [])
            elif kind == "merge":
                merged = files.merge_segments(rag.store, base_of(rag))()
                assert merged is not None
                assert isinstance(merged.dense.vectors, Int8Vectors)
            else:
                rag.close()
                rag = open_int8(Path(folder) / "i.e2g")
            assert_equals_a_build(rag)
            rag.retrieve("Bert")
        assert rag.verify().problems == ()
        rag.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vectors", "vector_scales"])
def test_other_arrays_are_built_again_and_found_by_verify(filled, name):
    with open_int8(filled) as rag:
        expected = answers(rag)
        generation = rag.store.generation
    folder = Path(f"{filled}.snapshot") / "int8" / generation
    arrays, meta = load_arrays(folder)
    arrays = {key: np.array(value) for key, value in arrays.items()}
    save_arrays(folder, arrays | {name: arrays[name] + arrays[name].dtype.type(1)}, meta)
    with open_int8(filled) as rag:
        assert any(repr(name) in problem for problem in rag.verify().problems)
    for wrong in (arrays[name][:-1], arrays[name].astype(np.float64)):
        save_arrays(folder, arrays | {name: wrong}, meta)
        with open_int8(filled) as rag:
            assert_same_answers(answers(rag), expected)
            assert rag.verify().ok
    floats = {key: array for key, array in arrays.items() if key != "vector_scales"}
    whole = np.asarray(Int8Vectors(arrays["vectors"], arrays["vector_scales"]))
    save_arrays(folder, floats | {"vectors": whole}, meta)
    with open_int8(filled) as rag:
        assert_same_answers(answers(rag), expected)
        assert base_of(rag).dense.kind is INT8


@pytest.mark.slow
def test_a_changed_document_is_left_out(filled):
    with open_int8(filled) as rag, open_int8(filled) as other:
        answers(other)
        rag.update(SourceDocument("d007", "Nobody was there."))
        for nodes in answers(other)[0]:
            assert nodes
        assert_same_answers(answers(other), answers(rag))


def test_vectors_of_windows_are_read_by_node_and_number(path):
    with open_int8(path) as rag:
        rag.add(DOCUMENTS[:3])
        snapshot = base_of(rag)
        [first, *_] = snapshot.nodes.ids
        found = rag.store.window_vectors([(first, 0), (first, 99), ("unknown", 0)])
        assert list(found) == [(first, 0)]
        vector = np.frombuffer(found[first, 0], "<f4")
        np.testing.assert_allclose(vector, snapshot.dense.vectors[0], atol=0.01)
        assert rag.store.window_vectors([]) == {}


def test_it_is_no_vector_index_of_a_server(path):
    with open_int8(path) as rag:
        with pytest.raises(InvalidInputError, match="of a server"):
            rag.update_vectors()
        rag.add(DOCUMENTS[:2])
        copied = rag.scoped({"part": 1})
        assert copied.retrieve("Anna").nodes
    with pytest.raises(InvalidInputError, match="must be 'int8', 'pgvector', or the URL"):
        open_int8(path, "int4")
