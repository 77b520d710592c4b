import asyncio
import dataclasses
import threading
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from e2graphrag_integrations._utils.concurrency import OwnLoop
from e2graphrag_integrations.errors import SummaryError
from e2graphrag_integrations.indexing.run import WorkStopped
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder, summarize_trees
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.callable import CallableSummarizer
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.summarizers.prompts import Prompts
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.chunking import chunk_spans, truncate
from e2graphrag_integrations.tree import plan_tree
from fakes import material_of
from strategies import WordCounter, byte_level_counter

MATERIAL_ONLY = Prompts("{text}", "{text}")


@pytest.fixture
def store():
    store = Store(":memory:")
    yield store
    store.close()


@pytest.fixture
def runner():
    runner = OwnLoop()
    yield runner
    runner.close()


@pytest.fixture
def builder(store, runner):
    def make(function, fingerprint="model", **options):
        summarizer = CallableSummarizer(function, prompts=MATERIAL_ONLY)
        return SummaryBuilder(
            summarizer=options.pop("summarizer", summarizer),
            fingerprint=fingerprint,
            counter=options.pop("counter", WordCounter()),
            max_tokens=options.pop("max_tokens", 50),
            retry=RetryPolicy(attempts=3, first_wait=0),
            store=store,
            runner=runner,
        )

    return make


class Model:
    """Records its prompts and answers with their first and last word."""

    def __init__(self):
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(material_of(prompt))
        words = self.prompts[-1].split()
        return f"{words[0]}..{words[-1]}"


def numbered(count, document_id="doc", size=1, overlap=0):
    text = " ".join(f"w{i}" for i in range(count))
    spans = chunk_spans(text, WordCounter(), chunk_size=size, chunk_overlap=overlap)
    return plan_tree(document_id, text, spans)


def fill(trees, made_by, workers=4, made=lambda: None, stopping=None):
    with ThreadPoolExecutor(workers) as pool:
        return summarize_trees(trees, made_by, pool, made, stopping or threading.Event())


@pytest.mark.parametrize(("chunks", "calls"), [(0, 0), (1, 0), (3, 1), (137, 36), (151, 40)])
def test_each_summary_takes_one_call(builder, chunks, calls):
    model, tree = Model(), numbered(chunks)
    made = builder(model)
    done = Counter()
    [summaries] = fill([tree], made, made=lambda: done.update(made=1))
    assert len(model.prompts) == made.usage.calls == done["made"] == len(summaries) == calls
    assert set(summaries) == {node.id for node in tree.nodes if node.level}


def test_a_summary_is_created_from_the_texts_of_its_children(builder):
    tree = numbered(26)
    [summaries] = fill([tree], builder(Model()))
    by_level = [[summaries[node.id] for node in level] for level in tree.levels[1:]]
    # Chunks 0-4, 5-9, ..., 20-24, 25; then their first five summaries and the sixth.
    assert by_level[0] == ["w0..w4", "w5..w9", "w10..w14", "w15..w19", "w20..w24", "w25..w25"]
    assert by_level[1] == ["w0..w4..w20..w24", "w25..w25..w25..w25"]


def test_overlap_is_removed_before_summarizing(builder):
    model, tree = Model(), numbered(8, size=4, overlap=1)
    assert [node.text for node in tree.levels[0]] == ["w0 w1 w2 w3", "w3 w4 w5 w6", "w6 w7"]
    fill([tree], builder(model))
    assert model.prompts == ["w0 w1 w2 w3\n\nw4 w5 w6\n\nw7"]


def test_several_trees_get_their_own_summaries(builder):
    trees = [numbered(7, "a"), numbered(0, "b"), numbered(3, "c")]
    filled = fill(trees, builder(Model()))
    assert [len(summaries) for summaries in filled] == [2, 0, 1]
    # 7 chunks make 2 summaries, which are not more than 5.
    assert list(filled[2].values()) == ["w0..w2"]


def test_the_number_of_workers_limits_simultaneous_calls(builder):
    running, most, lock = [0], [0], threading.Lock()

    def model(prompt):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.005)
        with lock:
            running[0] -= 1
        return "x"

    fill([numbered(100)], builder(model), workers=3)
    assert 1 < most[0] <= 3


def test_a_finished_summary_is_reused_from_the_cache(builder):
    first, second, other = Model(), Model(), Model()
    one = fill([numbered(26)], builder(first))
    assert fill([numbered(26)], builder(second)) == one
    assert (len(first.prompts), second.prompts) == (8, [])
    fill([numbered(26)], builder(other, fingerprint="other model"))
    assert len(other.prompts) == 8


def test_cache_keys_depend_on_length_level_texts_and_model(builder):
    made, short = builder(Model()), builder(Model(), max_tokens=5)
    keys = [
        made.key(["a", "b"], 1),
        made.key(["a", "b"], 2),
        made.key(["ab"], 1),
        made.key(["a\0001:b"], 1),
        short.key(["a", "b"], 1),
        builder(Model(), "other").key(["a", "b"], 1),
    ]
    assert len(set(keys)) == len(keys)
    # A summarizer receives the level and can depend on it.
    assert made.key(["a"], 2) != made.key(["a"], 3)


def test_simultaneous_equal_requests_share_one_call(builder):
    started, go = threading.Event(), threading.Event()
    calls = []

    def model(prompt):
        calls.append(prompt)
        started.set()
        assert go.wait(10)
        return "same"

    made = builder(model)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(made.build, ["a"], 1)
        assert started.wait(10)
        others = [pool.submit(made.build, ["a"], 1) for _ in range(3)]
        go.set()
        assert [future.result() for future in (first, *others)] == ["same"] * 4
    assert [material_of(prompt) for prompt in calls] == ["a"]
    assert made.in_flight == {}


def test_a_request_that_waited_for_a_failed_call_makes_its_own(builder):
    started, go = threading.Event(), threading.Event()
    calls = []

    def model(prompt):
        calls.append(prompt)
        if len(calls) > 1:
            return "answer"
        started.set()
        assert go.wait(10)
        raise ValueError("no")

    made = builder(model)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(made.build, ["a"], 1)
        assert started.wait(10)
        second = pool.submit(made.build, ["a"], 1)
        go.set()
        with pytest.raises(ValueError, match="no"):
            first.result()
        assert second.result() == "answer"
    assert made.in_flight == {}


def test_an_async_model_runs_in_the_event_loop_of_the_runner(builder):
    loops = set()

    async def model(prompt):
        await asyncio.sleep(0)
        loops.add(asyncio.get_running_loop())
        return prompt.split()[0]

    [summaries] = fill([numbered(26)], builder(model))
    assert len(summaries) == 8
    assert len(loops) == 1


def test_transient_errors_are_retried_and_counted(builder):
    fail = [TimeoutError(), ConnectionError()]

    def model(prompt):
        if fail:
            raise fail.pop()
        return "answer"

    made = builder(model)
    assert made.build(["a"], 1) == "answer"
    assert (made.usage.calls, made.usage.retries) == (3, 2)


def test_tokens_of_prompts_and_answers_are_counted(builder):
    made = builder(lambda _: "one two three")
    made.build(["a b", "c d"], 1)
    prompt = MATERIAL_ONLY.render(["a b", "c d"], level=1, max_tokens=50)
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (len(prompt.split()), 3)


def test_the_extractive_summarizer_counts_no_calls(builder):
    made = builder(None, summarizer=ExtractiveSummarizer(counter=WordCounter()))
    assert made.build(["One two three four five."], 1) == "One two three four five."
    assert (made.usage.calls, made.usage.prompt_tokens) == (0, 0)


class Refusing(Model):
    """Fails for the group that contains w7."""

    def __call__(self, prompt):
        answer = super().__call__(prompt)
        if "w7" in prompt:
            raise ValueError("refused")
        return answer


def test_a_failure_names_the_summary_and_stops_the_rest(builder):
    model, stopping = Refusing(), threading.Event()
    place = r"summary 1 of level 1 of document 'doc' failed: ValueError: refused"
    with pytest.raises(SummaryError, match=place):
        fill([numbered(26)], builder(model), workers=1, stopping=stopping)
    # One worker makes them in order: w0-w4, then w5-w9.
    assert len(model.prompts) == 2
    assert stopping.is_set()


def test_summaries_finished_before_a_failure_are_kept(builder):
    with pytest.raises(SummaryError):
        fill([numbered(26)], builder(Refusing()), workers=1)
    model = Model()
    fill([numbered(26)], builder(model))
    # 8 summaries, of which the first is cached.
    assert len(model.prompts) == 7
    assert not any(prompt.startswith("w0\n") for prompt in model.prompts)


def test_no_call_starts_after_a_stop_request(builder):
    model, stopping = Model(), threading.Event()
    stopping.set()
    with pytest.raises(WorkStopped):
        fill([numbered(26)], builder(model), stopping=stopping)
    assert model.prompts == []


@pytest.mark.parametrize("error", [CancelledError, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancelled_call_counts_as_a_failure(builder, error, is_async):
    def model(prompt):
        raise error

    async def async_model(prompt):
        raise error

    with pytest.raises(SummaryError, match="failed: CancelledError"):
        fill([numbered(3)], builder(async_model if is_async else model))


def test_an_interrupt_is_not_wrapped(builder):
    def model(prompt):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill([numbered(3)], builder(model))


@pytest.mark.parametrize("answer", ["", "  \n"])
def test_an_empty_summary_is_an_error_and_is_not_cached(builder, answer):
    with pytest.raises(SummaryError, match="CallableSummarizer returned an empty summary"):
        builder(lambda _: answer).build(["a"], 1)
    assert builder(lambda _: "better").build(["a"], 1) == "better"


def test_an_answer_that_is_not_a_string_is_an_error(builder):
    with pytest.raises(SummaryError, match="returned dict, not a text"):
        builder(lambda _: {"text": "x"}).build(["a"], 1)


def test_an_answer_that_is_far_too_long_is_cut_and_counted(builder):
    made = builder(lambda _: "One two three. " * 100, max_tokens=7)
    assert made.build(["a"], 1) == "One two three. One two three."
    assert made.usage.cut == 1
    assert made.usage.completion_tokens == 300


@pytest.mark.parametrize("counter", [WordCounter, byte_level_counter])
def test_lone_surrogates_in_an_answer_are_replaced(builder, counter):
    made = builder(lambda _: "a\ud800b", counter=counter())
    assert made.build(["a"], 1) == "a?b"


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [
        (9, ("One two. Three four five. Six.", False)),
        (6, ("One two. Three four five. Six.", False)),
        (5, ("One two. Three four five.", True)),
        (4, ("One two.", True)),
        (2, ("One two.", True)),
        (1, ("One", True)),
    ],
)
def test_a_text_is_cut_after_the_last_sentence_that_fits(max_tokens, expected):
    assert truncate("One two. Three four five. Six.", max_tokens, WordCounter()) == expected


def test_the_error_that_stopped_the_run_is_raised(builder):
    bad = threading.Event()

    class Mixed(Model):
        def __call__(self, prompt):
            if threading.current_thread().name.endswith("_0"):
                bad.set()
                raise ValueError("401 bad key")
            bad.wait(5)
            raise TimeoutError("transient")

    patient = RetryPolicy(attempts=5, first_wait=3600, longest_wait=3600)
    for _ in range(5):
        bad.clear()
        made_by = dataclasses.replace(builder(Mixed()), retry=patient)
        with pytest.raises(SummaryError, match="401 bad key"):
            fill([numbered(26)], made_by)
