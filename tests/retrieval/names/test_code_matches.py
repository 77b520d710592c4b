"""A question with a code finds the chunks with exactly this code first."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, SourceDocument

CLAUSES = [
    SourceDocument(f"{a}.{b}", f"{a}.{b} The tenant pays the rent of part {a * b}.")
    for a in (1, 2, 12)
    for b in (1, 2, 3, 10, 12, 30)
]


@pytest.fixture(scope="module", params=["hashing", None], ids=["hashed", "real vectors"])
def contract(request):
    with E2GraphRAG.open(":memory:", embedder=request.param) as rag:
        rag.add(
            [*CLAUSES, SourceDocument("cites", "The rent follows clause 12.3 and clause 2.10.")]
        )
        yield rag


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("clause", ["12.3", "2.10", "1.12", "12.30"])
@pytest.mark.parametrize("question", ["What does clause {} say?", "explain § {}", "{}?"])
def test_the_clause_comes_first(contract, clause, question):
    result = contract.retrieve(question.format(clause), k=3)
    assert result.nodes[0].document_id == clause
    assert result.trace.codes == (clause,)
    assert result.route == "local"
    assert any(reason.startswith("codes: rank") for reason in result.nodes[0].reasons)


def test_a_citation_follows_the_clause(contract):
    found = contract.retrieve("What does clause 12.3 say?", k=2)
    assert [node.document_id for node in found.nodes] == ["12.3", "cites"]


def test_a_token_budget_begins_with_the_clause(contract):
    found = contract.retrieve("What does clause 12.3 say?", token_budget=30)
    assert "12.3 The tenant" in found.context()


def test_filters_and_modes_apply_to_codes(contract):
    where = {"document_id": {"$ne": "12.3"}}
    assert contract.retrieve("clause 12.3", k=1, where=where).nodes[0].document_id == "cites"
    local = contract.retrieve("clause 12.3", k=9, mode="local")
    assert [node.document_id for node in local.nodes] == ["12.3", "cites"]
    assert contract.retrieve("clause 12.3", mode="global").trace.codes == ()


@pytest.mark.fast_cases(1)
def test_an_unknown_code_changes_nothing(contract):
    trace = contract.retrieve("What does clause 99.9 say?").trace
    assert trace.codes == ()
    assert "codes" not in trace.lists


def test_code_weight_0_leaves_the_list_out(contract):
    strategy = HybridStrategy(code_weight=0)
    assert "codes" not in contract.retrieve("clause 12.3", strategy=strategy).trace.lists


ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
ROMAN = "I II III IV V VI VII VIII IX X".split()
CHINESE = "一二三四五六七八九十"


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("number", [2, 4, 9])
@pytest.mark.parametrize(
    ("heading", "question"),
    [
        (lambda n: f"CHAPTER {ROMAN[n - 1]}", "What happens in chapter {n}?"),
        (lambda n: f"Chapter {n}", "What happens in the {ordinal} chapter?"),
        (lambda n: f"Article {ROMAN[n - 1]}", "What does Art. {n} say?"),
        (lambda n: f"§ {n}", "What does section {n} say?"),
        (lambda n: f"第{CHINESE[n - 1]}条", "第{n}条规定了什么？"),
    ],
)
def test_a_part_is_found_by_another_spelling_of_its_number(heading, question, number):
    parts = [
        SourceDocument(str(n), f"{heading(n)}\n\nThe tenant pays the rent of hall {n * 7 % 10}.")
        for n in range(1, 11)
    ]
    with E2GraphRAG.open(":memory:") as rag:
        rag.add(parts)
        asked = question.format(n=number, ordinal=ORDINALS[number - 1])
        assert rag.retrieve(asked, k=1).nodes[0].document_id == str(number)
