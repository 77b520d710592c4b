"""Languages of LangChain documents: from their metadata, from the index, or detected."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from e2graphrag_integrations import Models
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGIndex

DREAM = "曹雪芹著有《红楼梦》。贾宝玉住在大观园。"
TEA = "The Hatter gave Alice a cup of tea in Oxford, and she thanked him for it."


def document(text, source, **metadata):
    return Document(page_content=text, metadata={"source": source, **metadata})


@pytest.fixture
def index(lc_index_of):
    return lc_index_of(
        [
            document(TEA, "tea", language="en-US", page=0),
            document(DREAM, "dream", language="No language found."),
            document(TEA, "forced", lang="de"),
            document(TEA, "mixed", page=0, language="fr"),
            document(TEA, "mixed", page=1),
        ]
    )


def test_metadata_names_the_language_of_a_source(index):
    languages = index.rag.store.languages().items()
    assert sorted((id_.split(" #")[0], language) for id_, language in languages) == [
        ("dream", "zh"),
        ("forced", "de"),
        ("mixed", "en"),
        ("mixed", "fr"),  # the pages do not agree, so they have trees of their own
        ("tea", "en"),
    ]
    [hit, *_] = index.as_retriever(filter={"source": "dream"}).invoke("贾宝玉")
    assert hit.metadata["e2_language"] == "zh"
    assert hit.metadata["language"] == "No language found."


def test_filters_know_the_language_unless_the_metadata_has_the_key(index):
    def sources(language):
        hits = index.as_retriever(k=9, filter={"language": language}).invoke("tea")
        return {hit.metadata["source"] for hit in hits}

    assert sources("de") == {"forced"}
    assert sources("en-US") == {"tea"}
    assert sources("zh") == set()  # the key of the document has another value


async def test_an_index_has_a_language_for_other_documents(tmp_path):
    path = tmp_path / "i.e2g"
    index = await E2GraphRAGIndex.afrom_documents(
        [document(TEA, "tea"), document(DREAM, "dream", language="zh")],
        "hashing",
        path=path,
        models=Models(language="nl"),
    )
    assert list(index.rag.store.languages().values()).count("nl") == 1
    await index.aadd_documents([document(TEA + " It was hot.", "tea")])
    assert list(index.rag.store.languages().values()).count("nl") == 2
    index.close()
    with pytest.raises(InvalidInputError, match="language='xx'"):
        E2GraphRAGIndex.open(path, models=Models(language="xx"))
