"""`E2GraphRAGIndex`: building, inserting, updating, deleting."""

from __future__ import annotations


def test_a_question_about_two_people_gets_the_chunks_they_share(index_of, documents):
    index = index_of(documents)
    nodes = index.as_retriever(similarity_top_k=3).retrieve("What did Anna give Bert?")
    assert nodes
    assert all("Anna" in node.text or "Bert" in node.text for node in nodes)
