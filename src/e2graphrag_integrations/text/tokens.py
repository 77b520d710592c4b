"""Token counters: a rule-based approximation, and an adapter for Hugging Face fast tokenizers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.validation import check_int, wrap_errors
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import TokenCounter

SpanArray = NDArray[np.int64]

_UNKNOWN_TOKENS = ("<unk>", "[UNK]")
"""The names of the unknown token in common vocabularies."""

_SINGLE_LETTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Letters that count as one token each: those of scripts without spaces, and Hangul. Part of the
counter's version, and therefore independent of the table in `languages`."""


class ApproximateTokenCounter:
    """Approximates token counts by rules, for any script, without downloading a model.

    A token is a run of up to seven letters, a run of up to three digits, one letter of a script
    without spaces, or one punctuation mark. Whitespace is not counted. For English prose, the count
    is within a few percent of a GPT-style tokenizer's count; for long words and code it is higher.
    """

    fingerprint = "approximate:1"

    _token = re.compile(rf"[{_SINGLE_LETTERS}]|\d{{1,3}}|[^\W\d{_SINGLE_LETTERS}]{{1,7}}|[^\w\s]|_")

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""
        return sum(1 for _ in self._token.finditer(text))

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return the character span of each token."""
        return [match.span() for match in self._token.finditer(text)]


class HuggingFaceTokenCounter:
    """Counts tokens with a fast tokenizer from `tokenizers` or `transformers`.

    The tokenizer is copied. The truncation and padding settings of the original do not change, and
    other threads may use the original concurrently.

    Args:
        tokenizer: A `tokenizers.Tokenizer` or a `transformers` fast tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            raise InvalidInputError(
                f"{type(tokenizer).__name__} is not a fast tokenizer: pass a tokenizers.Tokenizer "
                "or a transformers fast tokenizer, or your own TokenCounter"
            )
        self._tokenizer = type(backend).from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        digest = hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()
        self.fingerprint = f"huggingface:{digest[:16]}"

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`, without special tokens."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return the character span of each token."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [(start, end) for start, end in encoding.offsets]

    def unknown_share(self, text: str) -> float:
        """Return the share of the tokens of `text` that the tokenizer does not know, in [0, 1]."""
        names = (getattr(self._tokenizer.model, "unk_token", None), *_UNKNOWN_TOKENS)
        ids = {self._tokenizer.token_to_id(name) for name in names if name} - {None}
        found = self._tokenizer.encode(text, add_special_tokens=False).ids
        return sum(one in ids for one in found) / max(1, len(found))


def count_tokens(counter: TokenCounter, text: str) -> int:
    """Return the number of tokens in `text`, after validating the counter's result.

    Raises:
        InvalidInputError: If the counter fails or does not return a non-negative integer.
    """
    name = f"{type(counter).__name__}.count()"
    with wrap_errors(InvalidInputError, f"{name} failed"):
        return check_int(name, counter.count(text), least=0, most=None)


def token_spans(counter: TokenCounter, text: str) -> SpanArray:
    """Return the token spans of `text`, shape (n, 2): ordered, disjoint and within the text.

    A byte-level tokenizer may report the span of one character several times, once for each token
    that encodes some of its bytes. These spans are merged. Whitespace that a tokenizer attaches to
    a token remains part of its span.

    Raises:
        InvalidInputError: If the counter fails, or does not return ordered spans within the text.
    """
    return counted_spans(counter, text)[0]


def counted_spans(counter: TokenCounter, text: str) -> tuple[SpanArray, NDArray[np.int64]]:
    """Return the token spans of `text`, and the number of tokens before each span.

    The second array has one additional entry, the total. Merged tokens are counted individually.
    """
    spans = _checked_spans(counter, text)
    if not len(spans):
        return spans, np.zeros(1, dtype=np.int64)
    ends = np.maximum.accumulate(spans[:, 1])
    starts = spans[:, 0].copy()
    starts[1:] = np.maximum(starts[1:], ends[:-1])
    keep = starts < ends
    before = np.append(np.flatnonzero(keep), len(spans))
    before[0] = 0
    return np.stack([starts, ends], axis=1)[keep], before


def _checked_spans(counter: TokenCounter, text: str) -> SpanArray:
    name = f"{type(counter).__name__}.spans()"
    with wrap_errors(InvalidInputError, f"{name} failed, or did not return a list of spans"):
        given = np.asarray(counter.spans(text))
    if not given.size:
        return np.empty((0, 2), dtype=np.int64)
    if given.shape[1:] != (2,) or not np.issubdtype(given.dtype, np.integer):
        raise InvalidInputError(f"{name} must return a list of (start, end) integers")
    spans = given.astype(np.int64)
    if spans.min() < 0 or spans.max() > len(text) or (spans[:, 0] > spans[:, 1]).any():
        raise InvalidInputError(
            f"{name} returned a span that lies outside the text's {len(text)} characters or ends "
            "before it starts"
        )
    # Empty spans may be out of order, because they contain no characters.
    starts = spans[spans[:, 0] < spans[:, 1], 0]
    if (np.diff(starts) < 0).any():
        raise InvalidInputError(f"{name} returned spans out of order: sort them by start")
    return spans
