r"""Run the stub server with rules of extraction that read the first line of a text as its title.

    python titled_stub.py STUB --port 8901

The stub's own rules join words in capitals across line breaks, so `Tool\nTool are a rock band` has
an entity `Tool Tool`, and they read only a part of names such as `Song of the South`. An LLM would
return the title as an entity. So do these rules: the title, without words in parentheses at its
end, is a name wherever it occurs, and it belongs to the first sentence, which describes it.
"""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

PLACE = "Titleplace"
"""A name in the place of the title, for rules that read one word with a capital as a name."""

_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)$")

_DELIMITERS = re.compile(r'["“”<>|#(){}\[\]\\`]')
"""Characters that the stub removes from descriptions: its replies use them as delimiters."""


def titled_graph(stub: ModuleType, text: str, *limits: int) -> tuple[list[Any], list[Any]]:
    """Return the entities and relations of a text whose first line is its title."""
    title, line_break, body = text.strip().partition("\n")
    name = _IN_PARENTHESES.sub("", title)
    if not line_break or not name:
        return stub.graph_of(text, *limits)  # type: ignore[no-any-return] # a module without types
    mention = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    entities, relations = stub.graph_of(mention.sub(PLACE, f"{title}: {body}"), *limits)
    shown = _DELIMITERS.sub("", name)

    def restored(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x.replace(PLACE, shown) if isinstance(x, str) else x for x in row)

    return [restored(row) for row in entities], [restored(row) for row in relations]


def load(script: str) -> ModuleType:
    """Return a new module of the stub."""
    spec = spec_from_file_location("openai_stub", script)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{script} is no Python module")
    stub = module_from_spec(spec)
    spec.loader.exec_module(stub)
    return stub


def main() -> None:
    script = sys.argv.pop(1)
    rules, stub = load(script), load(script)
    stub.graph_of = lambda text, *limits: titled_graph(rules, text, *limits)  # type: ignore[attr-defined] # the stub's own function
    stub.main()


if __name__ == "__main__":
    main()
