"""PyTorch runs in one thread for a question, and in as many as before for everything else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations._utils.threads import SingleThread
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
