import asyncio

from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.summarizers.callable import CallableSummarizer
from e2graphrag_integrations.summarizers.prompts import Prompts


def test_function_is_called_with_the_prompt():
    summarizer = CallableSummarizer(str.upper, prompts=Prompts("sum {text}"))
    assert isinstance(summarizer, Summarizer)
    prompt = summarizer.prompt(["a"], level=1, max_tokens=10)
    assert prompt.startswith("sum ")
    assert summarizer.summarize(["a"], level=1, max_tokens=10) == prompt.upper()


def test_coroutine_of_an_async_function_is_returned():
    async def function(prompt):
        return prompt

    summarizer = CallableSummarizer(function, prompts=Prompts("{text}"))
    answer = summarizer.summarize(["a"], level=1, max_tokens=10)
    assert asyncio.run(answer) == summarizer.prompt(["a"], level=1, max_tokens=10)


def test_fingerprint_depends_on_id_and_prompts_only():
    assert CallableSummarizer(str.upper).fingerprint is None
    fingerprint = CallableSummarizer(str.upper, "m").fingerprint
    assert fingerprint == CallableSummarizer(str.lower, "m").fingerprint
    assert fingerprint != CallableSummarizer(str.upper, "n").fingerprint
    assert fingerprint != CallableSummarizer(str.upper, "m", Prompts("x{text}")).fingerprint
