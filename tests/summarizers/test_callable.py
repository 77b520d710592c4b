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


class Message:
    text = "A map."


class Model:
    """A model with the methods of LangChain."""

    def __init__(self, **settings):
        self._identifying_params = {"temperature": 0, "api_key": "sk-1", **settings}
        self.calls = []

    def invoke(self, prompt, config=None):
        self.calls.append(config)
        return Message()

    async def ainvoke(self, prompt, config=None):
        return self.invoke(prompt, ("async", config))


def test_models_are_recognized_by_their_methods():
    model = Model()
    given = {"level": 1, "max_tokens": 10}
    assert CallableSummarizer(model).summarize(["a"], **given) == "A map."
    awaited = CallableSummarizer(model, config={"tags": []}, is_async=True)
    assert asyncio.run(awaited.summarize(["a"], **given)) == "A map."
    assert model.calls == [None, ("async", {"tags": []})]


def test_models_are_identified_by_their_settings_without_secrets():
    fingerprint = CallableSummarizer(Model()).fingerprint
    assert fingerprint == CallableSummarizer(Model(api_key="sk-2")).fingerprint
    assert fingerprint
    assert fingerprint != CallableSummarizer(Model(temperature=1)).fingerprint
    assert CallableSummarizer(Model()).model == "Model"
