import pytest

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.summarizers.prompts import Prompts


def test_prompt_contains_the_texts_and_requests_fewer_words_than_tokens():
    prompts = Prompts(chunks="{words} words of:\n{text}", summaries="merge {text} in {words}")
    # 100 tokens * 0.6 = 60 words.
    assert prompts.render(["a", "b"], level=1, max_tokens=100) == "60 words of:\na\n\nb"
    assert prompts.render(["a", "b"], level=2, max_tokens=100) == "merge a\n\nb in 60"
    assert prompts.render(["a"], level=3, max_tokens=1) == "merge a in 10"


def test_braces_in_texts_and_templates_are_literal():
    prompts = Prompts(chunks='{"json": true} {text}')
    text = "{words} {text} {0} {"
    assert prompts.render([text], level=1, max_tokens=100) == f'{{"json": true}} {text}'


def test_fingerprint_changes_with_each_template():
    variants = [Prompts(), Prompts(chunks="x{text}"), Prompts(summaries="x{text}")]
    assert len({prompts.fingerprint for prompts in variants}) == 3
    assert Prompts().fingerprint == Prompts().fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["no place"], r"prompt for chunks must contain \{text\}", id="chunks"),
        pytest.param(["{text}", ""], r"prompt for summaries must contain \{text\}", id="summaries"),
        pytest.param([5], "prompt for chunks must be a string, not int", id="type"),
        pytest.param(["{text}\ud800"], "surrogate", id="surrogate"),
    ],
)
def test_invalid_prompts_are_rejected(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Prompts(*arguments)
