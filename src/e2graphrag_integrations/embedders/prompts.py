"""The texts that embedding models were trained to find in front of a question or a passage.

Without them, such a model finds less. A sentence-transformers model can have them in its
`config_sentence_transformers.json`; some well-known models only document them in their model card.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

_CONFIG = "config_sentence_transformers.json"
_QUERY_NAME = "query"
_DOCUMENT_NAMES = ("document", "passage", "corpus")
"""Names under which models store their prompts. sentence-transformers only finds a `passage` prompt
if no version has ever written `document`, which version 5 always does."""


class ModelPrompts(NamedTuple):
    """The texts to prepend to a query and to a document."""

    query: str = ""
    document: str = ""

    @property
    def digest(self) -> str:
        """Eight hex digits that identify the prompts."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:8]


_DOCUMENTED = (
    # Model cards of intfloat/e5-base-v2 and intfloat/multilingual-e5-base, FAQ 1.
    (
        "intfloat",
        re.compile(r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?"),
        ModelPrompts("query: ", "passage: "),
    ),
    # Model card of intfloat/multilingual-e5-large-instruct, usage and FAQ 1.
    (
        "intfloat",
        re.compile(r"multilingual-e5-large-instruct"),
        ModelPrompts(
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
            "Query: "
        ),
    ),
    # Model cards of BAAI/bge-base-en-v1.5 and BAAI/bge-base-zh-v1.5, model list.
    (
        "BAAI",
        re.compile(r"bge-(small|base|large)-en(-v1\.5)?"),
        ModelPrompts("Represent this sentence for searching relevant passages: "),
    ),
    (
        "BAAI",
        re.compile(r"bge-(small|base|large)-zh(-v1\.5)?"),
        ModelPrompts("为这个句子生成表示以用于检索相关文章："),
    ),
)


def documented_prompts(name: str) -> ModelPrompts:
    """Return the prompts in the model card of a well-known model, or else none.

    Args:
        name: Name of the model, or a folder with the last part of its name.
    """
    owner, _, model = name.rpartition("/")
    if Path(name).is_dir():
        owner, model = "", Path(name).name
    for known_owner, pattern, prompts in _DOCUMENTED:
        if owner in ("", known_owner) and pattern.fullmatch(model):
            return prompts
    return ModelPrompts()


def applied_prompts(folder: Path | None) -> ModelPrompts:
    """Return the prompts that sentence-transformers 5 applies by itself."""
    stored = _stored(folder)
    return ModelPrompts(stored.get(_QUERY_NAME, ""), stored.get(_DOCUMENT_NAMES[0], ""))


def own_prompts(folder: Path | None) -> ModelPrompts:
    """Return the prompts in the files of a model."""
    stored = _stored(folder)
    documents = (stored[name] for name in _DOCUMENT_NAMES if stored.get(name))
    return ModelPrompts(stored.get(_QUERY_NAME, ""), next(documents, ""))


def _stored(folder: Path | None) -> dict[str, str]:
    """Return the prompts in a model's configuration; none if it cannot be read."""
    try:
        config = {} if folder is None else json.loads((folder / _CONFIG).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    prompts = config.get("prompts") if isinstance(config, dict) else None
    found = prompts.items() if isinstance(prompts, dict) else ()
    return {name: text for name, text in found if isinstance(text, str)}
