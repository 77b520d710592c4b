"""Content-defined chunks and groups in a LangChain index: an edit of a long source is cheap."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from langchain_fakes import SMALL, DigestChatModel, exported, split_into_pages

CONTENT = {"chunking": "content", "grouping": "content", "chunk_overlap": None}
NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil")
TEXT = " ".join(f"{NAMES[d % 5]} told {NAMES[d % 3]} of day {d} index." for d in range(120))


def diary_pages():
    """Return thirty pages of four sentences, all of one source."""
    return split_into_pages(TEXT, "days.pdf", sentences=4)


def edited(page):
    return page.model_copy(update={"page_content": f"{page.page_content} Zoe came by."})


def reopened(path, **options):
    return E2GraphRAGIndex.open(
        path,
        **grouped(
            {
                "llm": DigestChatModel(),
                "embeddings": "hashing",
                "extractor": NameExtractor(),
                **options,
            }
        ),
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("split_pages", [False, True])
def test_an_edit_regenerates_few_summaries_and_equals_a_rebuild(lc_index_of, split_pages):
    options = CONTENT | {"split_segments": split_pages}
    pages, llm = diary_pages(), DigestChatModel()
    index = lc_index_of(pages, llm=llm, **options)
    first_calls = llm.calls
    pages[15] = edited(pages[15])
    index.upsert([pages[15]])
    report = index.report
    assert first_calls > 40
    assert 1 <= report.llm_calls == llm.calls - first_calls <= first_calls / 4
    assert index.rag.verify().ok
    assert exported(index) == exported(lc_index_of(pages, llm=DigestChatModel(), **options))


@pytest.mark.slow
def test_chunking_and_grouping_are_stored_and_enforced(lc_index_of, tmp_path):
    path, pages = tmp_path / "days.e2g", diary_pages()
    index = lc_index_of(pages, path=path, llm=DigestChatModel(), **CONTENT)
    first_calls = index.report.llm_calls
    index.close()
    for name in ("chunking", "grouping"):
        with pytest.raises(SettingsMismatchError, match=f"{name}=content, not 'fixed'"):
            reopened(path, **{name: "fixed"})
    index = reopened(path)
    assert (
        index.rag.stats().settings["chunking"]
        == index.rag.stats().settings["grouping"]
        == "content"
    )
    pages[7] = edited(pages[7])
    index.add_documents([pages[7]])
    assert 1 <= index.report.llm_calls <= first_calls / 4
    assert exported(index) == exported(lc_index_of(pages, llm=DigestChatModel(), **CONTENT))
    index.close()


@pytest.mark.slow
async def test_all_constructors_accept_content_chunking(lc_index_of):
    options = SMALL | CONTENT
    expected = exported(lc_index_of([Document(id="d", page_content=TEXT)], **CONTENT))
    for index in (
        E2GraphRAGIndex.from_texts([TEXT], **grouped({"ids": ["d"], **options})),
        await E2GraphRAGIndex.afrom_texts([TEXT], **grouped({"ids": ["d"], **options})),
        await E2GraphRAGIndex.afrom_documents(
            [Document(id="d", page_content=TEXT)], **grouped(options)
        ),
    ):
        assert exported(index) == expected
        index.close()


def test_invalid_content_settings_are_rejected(lc_index_of):
    with pytest.raises(InvalidInputError, match="chunk_overlap=4"):
        lc_index_of([], **(CONTENT | {"chunk_overlap": 4}))
    with pytest.raises(InvalidInputError, match="grouping='tree'"):
        lc_index_of([], grouping="tree")
