"""Which documents share a tree."""

from __future__ import annotations

import pytest
from llama_index.core import Document

from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.corpus.trees import check_tree_per, page_tree
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.documents import LlamaIndexDocuments

FORMAT = LlamaIndexDocuments()


def tree_of(page, tree_per="source", scope_keys=()):
    return page_tree(FORMAT, page, page, tree_per, scope_keys).id


def page(number, **metadata):
    own = {"file_path": "a.pdf", "page_label": str(number), **metadata}
    return Page(f"p{number}", f"Page {number}.", own)


def test_the_pages_of_a_file_share_a_tree():
    assert tree_of(page(1)) == tree_of(page(2)) == "a.pdf"
    assert tree_of(page(1, author="Ann")) == tree_of(page(2, author="Ann")) != "a.pdf"
    assert tree_of(Page("plain", "x", {"file_path": "a.pdf"})) == "plain"


def test_a_chunk_is_in_the_tree_of_its_document():
    chunk = Page("n", "x", {}, {"chunk": True, "source": "doc"})
    assert tree_of(chunk) == tree_of(chunk, "document") == "doc"


def test_a_chunk_over_several_pages_is_in_the_tree_of_its_file():
    parts = [["p1", 0, 4, {}], ["p2", 6, 9, {}]]
    metadata = {"file_path": "a.pdf", "page_label": "1", "page_labels": ["1", "2"]}
    chunk = Page("n", "x", metadata, {"chunk": True, "source": "a.pdf", "parts": parts})
    assert tree_of(chunk) == "a.pdf"
    assert tree_of(chunk._replace(fields={})) != "a.pdf"  # a key of the user


def test_named_rules_and_functions():
    assert tree_of(page(1), "document") == "p1"
    assert tree_of(page(1), "corpus") == "corpus"
    assert tree_of(page(1), lambda document: document.metadata["page_label"]) == "1"
    seen = []
    document = Document(id_="d", text="x")
    page_tree(FORMAT, document, FORMAT.to_page(document), lambda one: seen.append(one) or "t")
    assert seen == [document]


def test_trees_do_not_span_the_values_of_scope_keys():
    for tree_per in ("source", "corpus", lambda _: "all"):
        trees = {tree_of(page(1, tenant=who), tree_per, ["tenant"]) for who in ("a", "b")}
        assert len(trees) == 2


@pytest.mark.parametrize("wrong", [lambda _: "", lambda _: None, lambda _: 1 / 0])
def test_a_function_must_return_a_name(wrong):
    with pytest.raises(InvalidInputError, match=r"tree_per .*document 'p1'"):
        tree_of(page(1), wrong)


def test_an_unknown_rule_raises():
    assert check_tree_per("document") == "document"
    for wrong in ("page", None, 3):
        with pytest.raises(InvalidInputError, match="source, document, corpus, or a function"):
            check_tree_per(wrong)
