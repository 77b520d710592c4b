"""Chunks and groups by content through the LangChain face: an edit of a long source is cheap."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import NameExtractor
from langchain_fakes import Digests, paged

CONTENT = {"chunking": "content", "grouping": "content", "chunk_overlap": None}
NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil")
TEXT = " ".join(f"{NAMES[d % 5]} told {NAMES[d % 3]} of day {d} again." for d in range(120))


def pages_of_days():
    """Return thirty pages of four sentences of one source."""
    return paged(TEXT, "days.pdf", sentences=4)


def edited(page):
    return page.model_copy(update={"page_content": f"{page.page_content} Zoe came by."})


def exported(index):
    return list(index.corpus.rag.export())


def reopened(path, **options):
    return E2GraphRAGIndex.open(
        path, llm=Digests(), embeddings="hashing", extractor=NameExtractor(), **options
    )


@pytest.mark.parametrize("split_pages", [False, True])
def test_an_edit_of_one_page_makes_few_summaries_and_leaves_what_a_rebuild_gives(
    lc_index_of, split_pages
):
    options = CONTENT | {"split_pages": split_pages}
    pages, llm = pages_of_days(), Digests()
    index = lc_index_of(pages, llm=llm, **options)
    whole = llm.calls
    pages[15] = edited(pages[15])
    index.upsert([pages[15]])
    report = index.build()
    assert whole > 40
    assert 1 <= report.llm_calls == llm.calls - whole <= whole / 4
    assert index.corpus.rag.verify().ok
    assert exported(index) == exported(lc_index_of(pages, llm=Digests(), **options))


def test_the_settings_are_in_the_file_and_are_held_to(lc_index_of, tmp_path):
    path, pages = tmp_path / "days.e2g", pages_of_days()
    index = lc_index_of(pages, path=path, llm=Digests(), **CONTENT)
    whole = index.report.llm_calls
    index.close()
    for name in ("chunking", "grouping"):
        with pytest.raises(SettingsMismatchError, match=f"{name}=content, not 'fixed'"):
            reopened(path, **{name: "fixed"})
    again = reopened(path)
    assert again.stats().settings["chunking"] == again.stats().settings["grouping"] == "content"
    pages[7] = edited(pages[7])
    again.add_documents([pages[7]])
    assert 1 <= again.report.llm_calls <= whole / 4
    assert exported(again) == exported(lc_index_of(pages, llm=Digests(), **CONTENT))
    again.close()


async def test_texts_and_async_ways_in_are_cut_by_content_too(lc_index_of):
    options = {"embeddings": "hashing", "extractor": NameExtractor(), "chunk_size": 16}
    options |= {"group_size": 3} | CONTENT
    expected = exported(lc_index_of([Document(id="d", page_content=TEXT)], **CONTENT))
    for index in (
        E2GraphRAGIndex.from_texts([TEXT], ids=["d"], **options),
        await E2GraphRAGIndex.afrom_texts([TEXT], ids=["d"], **options),
        await E2GraphRAGIndex.afrom_documents([Document(id="d", page_content=TEXT)], **options),
    ):
        assert exported(index) == expected
        index.close()


def test_settings_that_do_not_fit_are_refused(lc_index_of):
    with pytest.raises(InvalidInputError, match="chunk_overlap=4"):
        lc_index_of([], **(CONTENT | {"chunk_overlap": 4}))
    with pytest.raises(InvalidInputError, match="grouping='tree'"):
        lc_index_of([], grouping="tree")
