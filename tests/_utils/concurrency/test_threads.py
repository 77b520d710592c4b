"""PyTorch runs in one thread for a question, and in as many as before for everything else."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations._utils.concurrency.threads import SingleThread
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder

torch = pytest.importorskip("torch")

THREADS = 3


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_only_the_calling_thread_is_limited_and_only_inside_the_context():
    limiter = SingleThread()
    inside, checked = threading.Event(), threading.Event()
    seen = {}

    def limited():
        with limiter.active():
            seen["inside"] = torch.get_num_threads()
            inside.set()
            assert checked.wait(30)
        seen["after"] = torch.get_num_threads()

    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(limited)
        assert inside.wait(30)
        assert pool.submit(torch.get_num_threads).result() == THREADS  # a new thread
        assert torch.get_num_threads() == THREADS
        checked.set()
        running.result()
    assert seen == {"inside": 1, "after": THREADS}


@pytest.mark.usefixtures("three_threads")
def test_the_limit_holds_for_matrix_products_after_set_num_threads():
    """MKL takes its number of threads from PyTorch's, not from OpenMP's."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    if not hasattr(library, "MKL_Get_Max_Threads"):
        pytest.skip("this PyTorch has no MKL")
    limiter, mkl_threads = SingleThread(), library.MKL_Get_Max_Threads
    with ThreadPoolExecutor(1) as pool:
        before, elsewhere = mkl_threads(), pool.submit(mkl_threads).result()
        assert before > 1  # a new thread begins with OMP_NUM_THREADS
        with limiter.active():
            assert mkl_threads() == 1
            assert pool.submit(mkl_threads).result() == elsewhere
            with limiter.active():
                assert mkl_threads() == 1
            assert mkl_threads() == 1
    assert mkl_threads() == before


@pytest.mark.slow
def test_a_question_costs_the_cpu_of_one_thread_whatever_the_numbers():
    """Run in a new process, because OpenMP reads OMP_NUM_THREADS once."""
    code = """
import time, torch
torch.set_num_threads(2)
from sentence_transformers import SentenceTransformer
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL, find_model
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder

class Wrapped:
    dimension, max_tokens = 384, 254
    def __init__(self):
        self.model = SentenceTransformer(str(find_model(DEFAULT_MODEL)), device="cpu")
    def embed(self, texts):
        return self.model.encode(texts, show_progress_bar=False)
    def embed_query(self, text):
        return self.model.encode([text], show_progress_bar=False)[0]

embedder = WindowedEmbedder(Wrapped())
question = "Who gave Anna the map of the harbour, and what did the captain say? " * 3
embedder.embed_query(question)
used = time.process_time(), time.thread_time()
for number in range(20):
    embedder.embed_query(f"{question}{number}")
print((time.process_time() - used[0]) / (time.thread_time() - used[1]))
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1.2


@pytest.mark.usefixtures("three_threads")
def test_questions_are_embedded_in_one_thread_and_documents_in_all():
    class Recorder(HashingEmbedder):
        def __init__(self):
            super().__init__()
            self.threads = {}

        def embed(self, texts):
            self.threads["embed"] = torch.get_num_threads()
            return super().embed(texts)

        def embed_query(self, text):
            self.threads["embed_query"] = torch.get_num_threads()
            return HashingEmbedder().embed_query(text)

    embedder = Recorder()
    windowed = WindowedEmbedder(embedder)
    windowed.embed_query("Who is Anna?")
    windowed.embed(["Anna met Bert."])
    assert embedder.threads == {"embed_query": 1, "embed": THREADS}
    assert torch.get_num_threads() == THREADS


def test_the_limit_is_restored_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="failed"), SingleThread().active():
        raise ValueError("failed")
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("three_threads")
def test_one_thread_gives_the_same_vector(real_embedder):
    question = "Who gave Anna the map of the harbour?"
    limited = WindowedEmbedder(real_embedder).embed_query(question)
    np.testing.assert_allclose(limited, real_embedder.embed_query(question), atol=1e-6)
