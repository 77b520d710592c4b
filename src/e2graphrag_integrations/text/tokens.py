"""Token counters: an approximate one that needs nothing, and any Hugging Face fast tokenizer."""

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

# Letters of scripts written without spaces count one by one, as byte-pair vocabularies mostly
# treat them: CJK ideographs, kana, Hangul syllables, Thai, Lao, Khmer, Myanmar.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)


class ApproximateTokenCounter:
    """Counts tokens by rule: nothing to download, any script, exact spans.

    A run of letters is cut every seven characters, digits every three, letters of unspaced scripts
    and punctuation marks count singly, white space not at all. On English prose the count lies
    within a few per cent of GPT-style vocabularies, on long words and code above them.
    """

    fingerprint = "approximate:1"

    _token = re.compile(rf"[{_UNSPACED}]|\d{{1,3}}|[^\W\d{_UNSPACED}]{{1,7}}|[^\w\s]|_")

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        return sum(1 for _ in self._token.finditer(text))

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return each token's character span."""
        return [match.span() for match in self._token.finditer(text)]


class HuggingFaceTokenCounter:
    """Counts with a fast tokenizer of `tokenizers` or `transformers`.

    Args:
        tokenizer: A `tokenizers.Tokenizer`, or a `transformers` fast tokenizer.

    The tokenizer is copied: counting never disturbs the truncation or padding of the original,
    and is safe beside it in other threads.
    """

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            raise InvalidInputError(
                f"{type(tokenizer).__name__} is no fast tokenizer: pass a tokenizers.Tokenizer "
                "or a transformers fast tokenizer, or write a TokenCounter of your own"
            )
        self._tokenizer = type(backend).from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        digest = hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()
        self.fingerprint = f"huggingface:{digest[:16]}"

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`, special tokens not counted."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return each token's character span."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [(start, end) for start, end in encoding.offsets]


def count_tokens(counter: TokenCounter, text: str) -> int:
    """Return the number of tokens of `text` by a counter that may be anyone's.

    Raises:
        InvalidInputError: If the counter fails or returns no number of tokens.
    """
    name = f"{type(counter).__name__}.count()"
    with wrap_errors(InvalidInputError, f"{name} failed"):
        return check_int(name, counter.count(text), least=0, most=None)


def token_spans(counter: TokenCounter, text: str) -> SpanArray:
    """Return the spans of `text` as an (n, 2) array that is ordered, disjoint and inside the text.

    Byte-level tokenizers report the same span for the pieces of one character; those fold into
    one. White space that some tokenizers attach to a token is kept.

    Raises:
        InvalidInputError: If the counter fails, or its spans are none, lie outside the text or run
            backwards.
    """
    return counted_spans(counter, text)[0]


def counted_spans(counter: TokenCounter, text: str) -> tuple[SpanArray, NDArray[np.int64]]:
    """Return `token_spans`, and how many of the counter's tokens stand before each and in all.

    The second array has one entry more than the first has rows; the pieces of a character that one
    span stands for all count.
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
    with wrap_errors(InvalidInputError, f"{name} failed, or returned no list of spans"):
        given = np.asarray(counter.spans(text))
    if not given.size:
        return np.empty((0, 2), dtype=np.int64)
    if given.shape[1:] != (2,) or not np.issubdtype(given.dtype, np.integer):
        raise InvalidInputError(f"{name} must return a list of (start, end) whole numbers")
    spans = given.astype(np.int64)
    if spans.min() < 0 or spans.max() > len(text) or (spans[:, 0] > spans[:, 1]).any():
        raise InvalidInputError(
            f"{name} returned spans outside the text's {len(text)} characters, or that end before "
            "they start"
        )
    # Spans of no character may lie anywhere: no token is lost by them.
    starts = spans[spans[:, 0] < spans[:, 1], 0]
    if (np.diff(starts) < 0).any():
        raise InvalidInputError(f"{name} returned spans out of order: sort them by their start")
    return spans
