"""The text of a sentence, located by the mentions in it."""

from __future__ import annotations

from collections.abc import Sequence

from e2graphrag_integrations.types import Mention, Span


def sentence_span(sentences: Sequence[Span], mentions: Sequence[Mention]) -> Span:
    """Return the span from the first to the last sentence that contains one of the mentions.

    The extractor divides a text into sentences but does not say where they start.

    Args:
        sentences: The result of `sentence_spans` for the text.
        mentions: Mentions in the text.
    """
    first, last = min(m.start for m in mentions), max(m.end for m in mentions)
    spans = [span for span in sentences if span.start < last and span.end > first]
    start = min([first, *(span.start for span in spans)])
    end = max([last, *(span.end for span in spans)])
    return Span(start, end)
