"""A forked process reads an inherited index, refuses to write to it, and never hangs.

Each scenario runs in its own interpreter with a timeout, so that a hang fails the test only.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

TIMEOUT = 60

PRELUDE = """
import asyncio, contextlib, gc, os, sys, threading, time, traceback, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns about forks with threads
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.store import forks
from e2graphrag_integrations.testing import CapitalizedWordExtractor

PATH = sys.argv[1]

def open_index(path=PATH, **options):
    own = {"extractor": CapitalizedWordExtractor(), "chunk_size": 4, "chunk_overlap": 0}
    return E2GraphRAG.open(path, embedder=HashingEmbedder(32), **grouped(own | options))

def document(name):
    return SourceDocument(name, " ".join(f"Anna met {name.capitalize()} {n}." for n in range(5)))

def in_child(work, leave=sys.exit):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        gc.collect()
        leave(code)
    return pid

def check_exit(*pids):
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0, "a child failed"

@contextlib.contextmanager
def refused(match="open the index again"):
    try:
        yield
    except StoreError as error:
        assert match in str(error), error
    else:
        raise AssertionError("not refused")

def hold(*locks):  # in another thread; the result releases them
    held, release = threading.Event(), threading.Event()

    def wait():
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            release.wait()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    held.wait()
    return lambda: (release.set(), thread.join())
"""


def run(code, path, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, str(path)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr


def test_child_reads_refuses_writes_and_loses_no_write_of_any_process(tmp_path):
    """The child exits normally, so finalizers and exit handlers run there as well."""
    run(
        """
rag, memory = open_index(), open_index(":memory:")
rag.add(document("one"))
memory.add(document("one"))
rag.retrieve("Anna")
ready, go = os.pipe(), os.pipe()

def child():
    assert memory.retrieve("Anna").nodes and memory.document_ids == ["one"]
    with refused():
        memory.add(document("two"))
    assert rag.document_ids == ["one"]
    assert rag.retrieve("Anna", k=3).nodes
    assert rag.verify().ok
    for write in (
        lambda: rag.add(document("two")),
        lambda: rag.update(document("one")),
        lambda: rag.delete("one"),
        rag.resume,
        rag.compact,
        lambda: asyncio.run(rag.aadd(document("two"))),
        lambda: asyncio.run(rag.adelete("one")),
    ):
        with refused():
            write()
    os.write(ready[1], b"x")
    os.read(go[0], 1)  # the parent wrote and closed its handle
    assert rag.document_ids == ["one", "two"]
    rag.stop()
    own = open_index()
    own.add(document("three"))
    rag.close()
    own.add(document("four"))

pid = in_child(child)
os.read(ready[0], 1)
rag.add(document("two"))
rag.close()
os.write(go[1], b"x")
check_exit(pid)
with open_index() as rag:
    assert rag.document_ids == ["four", "one", "three", "two"], rag.document_ids
    assert rag.verify().ok
""",
        tmp_path / "i.e2g",
    )


def test_forks_while_a_thread_writes_neither_hang_nor_lose_writes(tmp_path):
    run(
        """
rag, done, written = open_index(), threading.Event(), []

def write():
    while not done.is_set():
        name = f"doc{len(written)}"
        rag.add(document(name))
        written.append(name)

thread = threading.Thread(target=write, daemon=True)
thread.start()

def child():
    rag.retrieve("Anna")
    assert "doc0" in rag.document_ids
    with refused():
        rag.add(document("x"))
    own = open_index()
    own.add(document(f"child{os.getpid()}"))
    rag.close()

pids = []
while len(written) < 2:
    time.sleep(0.01)
for number in range(4):
    pids.append(in_child(child, os._exit if number % 2 else sys.exit))
check_exit(*pids)
done.set()
thread.join()
rag.close()
with open_index() as rag:
    expected = {*written, *(f"child{pid}" for pid in pids)}
    assert set(rag.document_ids) == expected, expected ^ set(rag.document_ids)
    assert rag.verify().ok
""",
        tmp_path / "i.e2g",
    )


def test_child_after_an_async_summarizer_ran_and_while_another_call_runs(tmp_path):
    run(
        """
started, release = threading.Event(), threading.Event()

async def summarize(prompt):
    started.set()
    while not release.is_set():
        await asyncio.sleep(0.01)
    return f"Summary of {len(prompt)} characters."

release.set()
rag = open_index(summarizer=summarize)
rag.add(document("one"))
release.clear()
started.clear()
thread = threading.Thread(target=lambda: rag.add(document("two")), daemon=True)
thread.start()
started.wait()  # this thread holds the index lock, and the event loop runs

def child():
    assert rag.document_ids == ["one"]
    assert rag.estimate(document("three")).llm_calls
    with refused():
        rag.add(document("three"))
    rag.stop()
    rag.close()
    release.set()
    with open_index(PATH + "2", summarizer=summarize) as own:
        own.add(document("three"))

pid = in_child(child)
check_exit(pid)
release.set()
thread.join()
assert rag.document_ids == ["one", "two"]
rag.close()
""",
        tmp_path / "i.e2g",
    )


def test_child_of_a_fork_within_a_transaction_does_not_touch_the_file(tmp_path):
    """The parent's connection could not be closed, so even a new handle would be unsafe."""
    run(
        """
forks.WAIT_SECONDS = 0.1
rag, other = open_index(), open_index(":memory:")
rag.add(document("one"))
other.add(document("one"))
inside, finish = threading.Event(), threading.Event()

def read():
    with rag.read_transaction(), other.read_transaction():
        inside.set()
        finish.wait()

thread = threading.Thread(target=read, daemon=True)
thread.start()
inside.wait()

def child():
    for use in (lambda: rag.document_ids, lambda: rag.add(document("x")), open_index,
                lambda: other.document_ids):
        with refused("start the process with 'spawn'"):
            use()
    rag.close()
    other.close()

check_exit(in_child(child), in_child(child, os._exit))
finish.set()
thread.join()
check_exit(in_child(lambda: rag.retrieve("Anna")))
rag.add(document("two"))
rag.close()
with open_index() as rag:
    assert rag.document_ids == ["one", "two"]
""",
        tmp_path / "i.e2g",
    )


def test_child_of_a_fork_during_a_refresh_prepares_the_next_state_itself(tmp_path):
    """The thread that prepares the next state exists only in the parent."""
    run(
        """
from e2graphrag_integrations.retrieval import session

rag, writer = open_index(), open_index()
rag.add([document(f"doc{number}") for number in range(20)])
rag.retrieve("Anna")
build, entered, proceed = session.load_or_build_snapshot, threading.Event(), threading.Event()

def slow(*arguments, **options):
    entered.set()
    proceed.wait()
    return build(*arguments, **options)

session.load_or_build_snapshot = slow
writer.add(document("new"))
assert not rag.retrieve("Anna").trace.freshness.is_newest
entered.wait()

def child():
    proceed.set()
    assert not rag.retrieve("Anna").trace.freshness.is_newest
    while not rag.retrieve("Anna").trace.freshness.is_newest:
        time.sleep(0.01)
    assert "new" in {node.document_id for node in rag.retrieve("New", k=99).nodes}
    rag.close()

check_exit(in_child(child), in_child(child, os._exit))
proceed.set()
while not rag.retrieve("Anna").trace.freshness.is_newest:
    time.sleep(0.01)
rag.close()
""",
        tmp_path / "i.e2g",
    )


def test_langchain_index_in_a_child(tmp_path):
    run(
        """
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from e2graphrag_integrations.langchain import E2GraphRAGIndex

def lc_open():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=32))
    return E2GraphRAGIndex.open(PATH, embeddings=HashingEmbedder(32), vector_store=store,
                                **grouped({"extractor": CapitalizedWordExtractor()}))

index = lc_open()
index.add_documents([Document("Anna met Bert.", metadata={"source": "a"}, id="a")])
retriever = index.as_retriever()
retriever.invoke("Anna")
release = hold(index.corpus._lock, index.corpus._build_lock)

def child():
    assert [d.page_content for d in retriever.invoke("Anna")] == ["Anna met Bert."]
    assert index.ids() == ["a"] and index.get(["a"])
    for write in (
        lambda: index.add_documents([Document("Cleo left.", id="c")]),
        lambda: index.upsert([Document("Cleo left.", id="c")]),
        lambda: index.delete(["a"]),
        index.build,
        lambda: asyncio.run(index.abuild()),
    ):
        with refused():
            write()
    with lc_open() as own:
        own.upsert([Document("Dora left.", id="d")])
    retriever.invoke("Dora")  # a search writes nothing
    index.close()

check_exit(in_child(child))
release()
assert sorted(index.ids()) == ["a", "d"]
index.rag.refresh()
assert any("Dora" in d.page_content for d in retriever.invoke("Dora"))
index.close()
""",
        tmp_path / "i.e2g",
    )


def test_llama_index_in_a_child(tmp_path):
    run(
        """
from llama_index.core import Document
from e2graphrag_integrations.llama_index import E2GraphRAGIndex

options = dict(llm="extractive", embed_model=HashingEmbedder(32),
               **grouped({"extractor": CapitalizedWordExtractor()}))
for path in (":memory:", PATH):
    index = E2GraphRAGIndex.from_documents(
        [Document(text="Anna met Bert.", id_="a")], path=path, **options
    )
    retriever = index.as_retriever()
    retriever.retrieve("Anna")
    release = hold(index._saved.lock, index._corpus._lock, index._corpus._build_lock)

    def child():
        assert [n.text for n in retriever.retrieve("Anna")] == ["Anna met Bert."]
        assert list(index.ref_doc_info) == ["a"]
        new = Document(text="Cleo left.", id_="c")
        for write in (
            lambda: index.insert(new),
            lambda: asyncio.run(index.ainsert(new)),
            lambda: index.refresh_ref_docs([new]),
            lambda: index.delete_ref_doc("a"),
            index.rag.reindex,
        ):
            with refused():
                write()

    check_exit(in_child(child))
    release()
    index.insert(Document(text="Cleo left.", id_="c"))
    assert len(retriever.retrieve("Who left?")) == 2
    index.close()
""",
        tmp_path / "i.e2g",
    )


def test_preloaded_workers_with_real_vectors_answer(tmp_path):
    """As under gunicorn with `preload_app`: the parent warmed PyTorch's threads up."""
    run(
        """
import multiprocessing
import torch
assert torch.get_num_threads() == 2
rag = E2GraphRAG.open(PATH, **grouped({"chunk_size": 60, "chunk_overlap": 0}))
text = "Anna met Bert in Oslo. Bert gave Anna a map of the harbour. " * 12
rag.add(SourceDocument("a", text))
expected = [n.node_id for n in rag.retrieve("Who gave Anna a map?").nodes]
fork = multiprocessing.get_context("fork")

def answer(_):
    return [n.node_id for n in rag.retrieve("Who gave Anna a map?").nodes]

with fork.Pool(1) as pool:
    assert pool.map(answer, range(2), chunksize=1) == [expected] * 2
assert torch.get_num_threads() == 2
rag.close()
""",
        tmp_path / "i.e2g",
        OMP_NUM_THREADS="2",
    )
