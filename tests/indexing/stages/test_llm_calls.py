"""LLM calls: announced before the first one, and refused above `max_llm_calls`."""

from __future__ import annotations

import logging

import pytest

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.errors import InvalidInputError, LLMCallLimitError
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from fakes import CountingEmbedder, CountingLLM, Failing, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}
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
