"""`estimate`: the exact number of calls before the first call."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, LLMCallLimitError, SummaryError
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from fakes import CountingEmbedder, CountingLLM, Failing, NameExtractor, numbered
from strategies import examples

FOUR = {"chunk_size": 4, "chunk_overlap": 0}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("chunks", "levels"),
    [
        (0, []),
        (1, []),
        (2, [1]),
        (3, [1]),
        (5, [1]),
        (6, [2]),
        (25, [5]),
        (26, [6, 2]),
        (100, [20, 4]),
        (137, [28, 6, 2]),  # 36
        (151, [31, 7, 2]),  # 40; the official code fails from here on
    ],
)
def test_the_estimate_equals_the_tree_shape_and_the_calls(open_index, chunks, levels):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, **FOUR)
    document = numbered(chunks)
    estimate = rag.estimate(document)
    assert estimate.chunks == chunks
    assert [level.summaries for level in estimate.levels] == levels
    assert estimate.llm_calls == estimate.summaries == sum(levels)
    assert llm.calls == 0
    report = rag.add(document)
    assert (report.chunks, report.summaries) == (chunks, sum(levels))
    assert report.llm_calls == llm.calls == estimate.llm_calls


def test_estimating_writes_nothing_and_loads_no_model(tmp_path, open_index):
    class Unused:
        fingerprint = "unused"
        dimension = 3
        max_tokens = None

        def embed(self, texts):
            raise AssertionError("embedded")

        embed_query = embed

        def extract(self, texts):
            raise AssertionError("extracted")

    rag = open_index(tmp_path / "i.e2g", embedder=Unused(), extractor=Unused(), **FOUR)
    assert rag.estimate([numbered(7)]).llm_calls == 2
    assert next(iter(rag.export())) == '{"manifest":{}}'


def test_unchanged_documents_cost_nothing(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    rag.add(numbered(30))
    estimate = rag.estimate([numbered(30), numbered(2, "new", first=500)])
    assert (estimate.documents, estimate.chunks, estimate.llm_calls) == (1, 2, 1)
    # 31 chunks: 7 groups, of which 6 are cached, and 2 above them of which the second is new.
    changed = rag.estimate(numbered(31))
    assert [(lv.summaries, lv.llm_calls) for lv in changed.levels] == [(7, 1), (2, 1)]
    assert rag.update(numbered(31)).llm_calls == changed.llm_calls


def test_cached_summaries_cost_nothing(open_index):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, **FOUR)
    rag.add(numbered(30))  # 6 and 2
    estimate = rag.estimate(
        numbered(32, "longer")
    )  # 7, of which 6 are cached, and 2, of which one is new
    assert [(lv.summaries, lv.llm_calls) for lv in estimate.levels] == [(7, 1), (2, 1)]
    before = llm.calls
    assert rag.add(numbered(32, "longer")).llm_calls == 2
    assert llm.calls - before == 2


def test_after_a_failure_the_estimate_covers_the_rest(open_index):
    left = [7]
    llm = CountingLLM()

    def summarize(prompt):
        if not left[0]:
            raise ValueError("no more")
        left[0] -= 1
        return llm(prompt)

    rag = open_index(summarizer=summarize, concurrency=1, **FOUR)
    assert rag.estimate(numbered(60)).llm_calls == 12 + 3
    with pytest.raises(SummaryError):
        rag.add(numbered(60))
    assert rag.estimate(numbered(60)).llm_calls == 8
    left[0] = 99
    assert rag.add(numbered(60)).llm_calls == 8


def test_prompt_tokens_are_exact_at_level_one_and_upper_bounds_above(open_index):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, summary_tokens=40, **FOUR)
    low = rag.estimate(numbered(25))
    report = rag.add(numbered(25))
    assert report.prompt_tokens == low.prompt_tokens
    assert report.completion_tokens <= low.completion_tokens == 5 * 40
    other = open_index(summarizer=CountingLLM(), summary_tokens=40, **FOUR)
    high = other.estimate(numbered(60))
    report = other.add(numbered(60))
    assert report.prompt_tokens < high.prompt_tokens
    assert report.completion_tokens < high.completion_tokens


def test_an_estimate_is_plain_json(open_index):
    plain = open_index(**FOUR).estimate(numbered(30)).to_dict()
    assert plain["llm_calls"] == 8
    assert plain["levels"][1] == {
        "level": 2,
        "summaries": 2,
        "llm_calls": 2,
        "prompt_tokens": plain["levels"][1]["prompt_tokens"],
        "completion_tokens": 600,
    }


@examples(40)
@given(
    there=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=2),
    new=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), min_size=1, max_size=4),
)
def test_calls_equal_the_estimate_for_any_cached_or_repeated_text(there, new):
    """Documents with few starting points share chunks, groups, or everything."""
    llm = CountingLLM()
    with E2GraphRAG.open(
        ":memory:",
        **grouped(
            {
                "embedder": HashingEmbedder(8),
                "extractor": NameExtractor(),
                "summarizer": llm,
                "group_size": 3,
                **FOUR,
            }
        ),
    ) as rag:
        rag.add([numbered(n, f"old{i}", first=5 * at) for i, (n, at) in enumerate(there)])
        documents = [numbered(n, f"new{i}", first=5 * at) for i, (n, at) in enumerate(new)]
        before, estimate = llm.calls, rag.estimate(documents)
        report = rag.add(documents)
        assert llm.calls - before == report.llm_calls == estimate.llm_calls
        assert report.summaries == estimate.summaries
        assert report.prompt_tokens <= estimate.prompt_tokens
        assert report.completion_tokens <= estimate.completion_tokens


def test_the_extractive_default_gives_the_same_summary_count(open_index, story):
    extractive, llm = open_index(), open_index(summarizer=CountingLLM())
    assert extractive.estimate(story).summaries == llm.estimate(story).summaries > 0


def test_empty_documents_cost_nothing(open_index):
    estimate = open_index(**FOUR).estimate([SourceDocument("e", ""), SourceDocument("w", " \n")])
    assert (estimate.documents, estimate.chunks, estimate.llm_calls) == (2, 0, 0)
    assert estimate.levels == ()


LOGGER = "e2graphrag_integrations.indexing.stages.llm_calls"


class NamedLLM(CountingLLM):
    """A summarizer that names its model and logs when it is called."""

    fingerprint = "fake:named"
    model = "small-model"

    def summarize(self, texts, *, level, max_tokens):
        logging.getLogger(LOGGER).info("called")
        return self(f"{level} {max_tokens} {texts}")


def test_one_line_before_the_first_call_names_calls_tokens_and_model(open_index, caplog):
    caplog.set_level(logging.INFO, LOGGER)
    rag, notes = open_index(summarizer=NamedLLM(), **FOUR), []
    cost = rag.estimate(numbered(26))
    rag.add(numbered(26), progress=lambda progress: notes.append(progress.note))
    line, *calls = caplog.messages
    assert calls == ["called"] * 8
    assert line == (
        f"summaries: 8 LLM call(s) to small-model, with at most {cost.prompt_tokens:,} prompt "
        f"tokens and {cost.completion_tokens:,} completion tokens"
    )
    assert [note for note in notes if note] == [line]
    rag.add(numbered(26))  # unchanged: no call, no line
    assert len(caplog.messages) == 9


def test_extractive_summaries_log_nothing_and_need_no_limit(open_index, caplog):
    caplog.set_level(logging.INFO, LOGGER)
    assert open_index(**FOUR).add(numbered(9), max_llm_calls=0).summaries
    assert not caplog.messages


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_run_above_the_limit_is_refused_before_it_costs_anything(open_index, is_async):
    llm, embedder = CountingLLM(), CountingEmbedder()
    rag = open_index(summarizer=llm, llm_id="llm", embedder=embedder, **FOUR)

    async def call(method, *arguments, limit):
        if is_async:
            return await getattr(rag, f"a{method}")(*arguments, max_llm_calls=limit)
        return getattr(rag, method)(*arguments, max_llm_calls=limit)

    with pytest.raises(LLMCallLimitError, match=r"need 8 LLM call.* max_llm_calls=7") as refusal:
        await call("add", numbered(26), limit=7)
    assert (refusal.value.needed, refusal.value.limit) == (8, 7)
    assert (llm.calls, embedder.texts, rag.status()) == (0, [], [])
    assert (await call("add", numbered(26), limit=8)).llm_calls == 8
    with pytest.raises(LLMCallLimitError):
        await call("update", numbered(26, first=1), limit=0)
    assert (llm.calls, [state.status for state in rag.status()]) == (8, ["done"])


def test_the_limit_counts_neither_cached_summaries_nor_retries(open_index):
    llm = Failing(ConnectionError("reset"), at=3, times=5)
    quick = RetryPolicy(first_wait=0)
    rag = open_index(summarizer=llm, concurrency=1, retry=quick, **FOUR)
    with pytest.raises(Exception, match="reset"):
        rag.add(numbered(26))
    with pytest.raises(LLMCallLimitError, match="need 5 LLM"):
        rag.resume(max_llm_calls=4)
    assert [state.status for state in rag.status()] == ["failed"]
    llm.left = 1
    report = rag.resume(max_llm_calls=5)
    assert (report.llm_calls, report.retries) == (6, 1)


def test_a_document_that_cannot_be_split_does_not_hide_the_others(open_index):
    def split(text):
        if "Item 0 " in text:
            raise ValueError("no")
        return [(0, 4), (4, len(text))]

    rag = open_index(summarizer=CountingLLM(), splitter=split)
    documents = [numbered(3, "bad"), numbered(3, "good", first=5)]
    with pytest.raises(LLMCallLimitError, match="need 1 LLM"):
        rag.add(documents, max_llm_calls=0)
    assert set(rag.add(documents, max_llm_calls=1).failed) == {"bad"}


@pytest.mark.parametrize("limit", [-1, 2.5, True, "9"])
def test_an_invalid_limit_is_rejected(open_index, limit):
    rag = open_index(embedder=HashingEmbedder())
    for write in (rag.add, rag.update):
        with pytest.raises(InvalidInputError, match="max_llm_calls="):
            write(numbered(3), max_llm_calls=limit)
    with pytest.raises(InvalidInputError, match="max_llm_calls="):
        rag.resume(max_llm_calls=limit)
