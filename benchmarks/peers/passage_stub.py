r"""Run the stub server with rules that are closer to the answers of an LLM, for short passages.

    python passage_stub.py STUB --port 8901

The stub's own rules are made for novels. They join words in capitals across line breaks, so
`Tool\nTool are a rock band` has an entity `Tool Tool`; they read only `Song` of `Song of the South`
and only `Hugo Rodr` of `Hugo Rodríguez`; and the keywords of a question contain parts of words. An
LLM would return the title of a passage as an entity. So do these rules: the title, without words in
parentheses at its end, is a name wherever it occurs, and it belongs to the first sentence, which
describes it. The names and nouns of a question are those that this package's extractor reads.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.types import NOUN

PLACE = "Titleplace"
"""A name in the place of the title, for rules that read one word with a capital as a name."""

QUESTIONS = {
    "keywords": ("User Query:", "---Output---"),
    "query-entities": ("-INPUT-\nQuery:", "Output:"),
}
"""Kinds of prompts about a question, and the texts before and after the question."""

_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)$")

_DELIMITERS = re.compile(r'["“”<>|#(){}\[\]\\`]')
"""Characters that the stub removes from descriptions: its replies use them as delimiters."""

Graph = Callable[..., tuple[list[Any], list[Any]]]


def titled_graph(graph_of: Graph, text: str, *limits: int) -> tuple[list[Any], list[Any]]:
    """Return the entities and relations of a text whose first line is its title."""
    title, line_break, body = text.strip().partition("\n")
    name = _IN_PARENTHESES.sub("", title)
    if not line_break or not name:
        return graph_of(text, *limits)
    mention = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    entities, relations = graph_of(mention.sub(PLACE, f"{title}: {body}"), *limits)
    shown = _DELIMITERS.sub("", name)

    def restored(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x.replace(PLACE, shown) if isinstance(x, str) else x for x in row)

    return [restored(row) for row in entities], [restored(row) for row in relations]


def question_reply(kind: str, question: str, extractor: EntityExtractor) -> str:
    """Return the names and nouns of a question, as LightRAG or fast-graphrag asks for them."""
    [sentences] = extractor.extract([question.strip()])
    labels = {one.entity: one.label for mentions in sentences for one in mentions}
    names = [entity for entity, label in labels.items() if label != NOUN]
    nouns = [entity for entity, label in labels.items() if label == NOUN]
    if kind == "keywords":
        reply = {"high_level_keywords": nouns or names, "low_level_keywords": names or nouns}
    else:
        reply = {"named": names, "generic": nouns}
    return json.dumps(reply)


def load(script: str) -> ModuleType:
    """Return a new module of the stub."""
    spec = spec_from_file_location("openai_stub", script)
    if spec is None or spec.loader is None:
        raise SystemExit(f"not a Python module: {script}")
    stub = module_from_spec(spec)
    spec.loader.exec_module(stub)
    return stub


def change(stub: Any) -> None:
    """Replace the rules of the stub's module."""
    graph_of, make_reply, extractor = stub.graph_of, stub.make_reply, SpacyEntityExtractor()

    def reply(messages: Sequence[tuple[str, str]], *options: Any) -> tuple[str, str]:
        kind, text = make_reply(messages, *options)
        if kind in QUESTIONS:
            question = stub.between(messages[-1][1], *QUESTIONS[kind])
            text = question_reply(kind, question, extractor)
        return kind, text

    stub.graph_of = lambda text, *limits: titled_graph(graph_of, text, *limits)
    stub.make_reply = reply


if __name__ == "__main__":
    module = load(sys.argv.pop(1))
    change(module)
    module.main()
