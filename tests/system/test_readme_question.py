"""README's own question, asked of the novel of the demo on real vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG

pytestmark = pytest.mark.slow

README = Path(__file__).parents[2] / "README.md"
QUESTION = "What did Weena give to the Time Traveller?"


@pytest.mark.parametrize("options", [{"k": 5}, {}, {"token_budget": 2000}])
def test_the_first_hit_answers_the_question_of_the_readme(demo, options):
    assert QUESTION in README.read_text(encoding="utf-8")
    with E2GraphRAG.open(demo[0]) as rag:
        first = rag.retrieve(QUESTION, **options).nodes[0]
    assert "Weena" in first.text
    assert "flowers" in first.text  # her gift
