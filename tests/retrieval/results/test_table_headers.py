"""A passage that begins inside a table shows its header, and its spans remain exact."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.retrieval.result import GAP

HEADER = "sku,product,material,price"
ROWS = [f"SKU-{n:05},stool,oak,{n * 7 % 900}" for n in range(400)]
PROSE = "The shop sells furniture. Prices are in crowns.\n\n"
TABLE = "\n".join([HEADER, *ROWS])


@pytest.fixture(scope="module", params=["", PROSE], ids=["table only", "prose before it"])
def shop(request):
    text = request.param + TABLE + "\n\nThe shop is closed on Sundays.\n"
    with E2GraphRAG.open(":memory:", embedder="hashing", chunk_size=400) as rag:
        rag.add(SourceDocument("prices", text))
        yield rag, text


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("number", [0, 7, 150, 399])
@pytest.mark.parametrize("options", [{"token_budget": 300}, {"k": 2}], ids=str)
def test_a_row_comes_with_its_header_once(shop, number, options):
    rag, text = shop
    result = rag.retrieve(f"What is the price of SKU-{number:05}?", **options)
    node = next(one for one in result.nodes if not one.level and ROWS[number] in one.text)
    assert node.text.count(HEADER) == 1
    assert GAP.join(text[start:end] for start, end in node.spans) == node.text
    assert set(node.text.replace(GAP, "\n").splitlines()) <= set(text.splitlines())
    assert list(node.spans) == sorted(node.spans)


def test_the_header_counts_in_the_budget(shop):
    rag, _ = shop
    for budget in (40, 60, 100, 200):
        result = rag.retrieve("What is the price of SKU-00250?", token_budget=budget)
        assert rag._index.components.counter.count(result.context()) <= budget


def test_text_outside_the_table_has_no_header(shop):
    rag, _ = shop
    result = rag.retrieve("Is the shop closed on Sundays?", token_budget=900)
    closed = next(one for one in result.nodes if "Sundays" in one.text)
    assert HEADER not in closed.text or closed.text.startswith(HEADER)


ORDERS = [
    f"{2000 + n};{('Ann', 'Bob', 'Cid')[n % 3]} Dahl;{n * 7 % 90},{n % 10}0;open"
    for n in range(120)
]


@pytest.mark.parametrize("number", [2003, 2031, 2032, 2058, 2119])
def test_real_vectors_find_the_row_of_a_plain_number(number, orders):
    context = orders.retrieve(f"What is the amount of order {number}?", token_budget=400).context()
    assert ORDERS[number - 2000] in context
    assert "order;customer;amount;state" in context


@pytest.fixture(scope="module")
def orders(real_embedder):
    with E2GraphRAG.open(":memory:", embedder=real_embedder) as rag:
        rag.add(SourceDocument("orders", "\n".join(["order;customer;amount;state", *ORDERS])))
        yield rag
