"""Removing the text of some documents from chunks that also contain text of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.pages import merge_metadata, with_pages_of


def rest_of(chunks: Sequence[Page], documents: frozenset[str]) -> tuple[list[Page], list[str]]:
    """Return the chunks that change without some documents, and the ids of those to remove.

    The latter have no other text, or none that another chunk lacks.

    Args:
        chunks: All chunks of a tree whose documents share chunks, with their `parts`.
        documents: Ids of the documents whose text is removed.
    """
    shifts = _shifts(chunks, documents)
    moved = [(chunk, _moved(chunk, documents, shifts)) for chunk in chunks]
    changed: list[Page] = []
    removed = [chunk.id for chunk, rest in moved if not rest.text]
    covered = -1
    remaining = [(chunk, rest) for chunk, rest in moved if rest.text]
    for chunk, rest in sorted(remaining, key=lambda one: (_span(one[1])[0], -_span(one[1])[1])):
        _, end = _span(rest)
        if end <= covered and rest.text != chunk.text:
            removed.append(chunk.id)
            continue
        covered = max(covered, end)
        if rest is not chunk:
            changed.append(rest)
    return changed, removed


def _shifts(chunks: Sequence[Page], documents: frozenset[str]) -> dict[str, int]:
    """Return how far each document of the tree moves to the start of the text."""
    starts: dict[str, int] = {}
    for chunk in chunks:
        for id_, start, *_ in chunk.fields["parts"]:
            starts[id_] = min(start, starts.get(id_, start))
    ordered = sorted(starts, key=lambda id_: starts[id_])
    shifts = dict.fromkeys(ordered[:1], 0)
    for id_, following in pairwise(ordered):
        length = starts[following] - starts[id_] if id_ in documents else 0
        shifts[following] = shifts[id_] + length
    return shifts


def _moved(chunk: Page, documents: frozenset[str], shifts: Mapping[str, int]) -> Page:
    """Return what remains of a chunk, which may be nothing, at its new place."""
    parts: Sequence[Sequence[Any]] = chunk.fields["parts"]
    rest = [part for part in parts if part[0] not in documents]
    is_cut = len(rest) < len(parts)
    if not rest:
        return chunk._replace(text="")
    if not (is_cut or any(shifts[part[0]] for part in rest)):
        return chunk
    first, text = parts[0][1], ""
    for part, following in pairwise([*parts, parts[-1]]):
        if part[0] not in documents:
            end = following[1] if following is not part else part[2]
            text += chunk.text[part[1] - first : end - first]
    moved = [[id_, start - shifts[id_], end - shifts[id_], own] for id_, start, end, own in rest]
    fields = {**chunk.fields, "parts": moved, "start": moved[0][1]}
    if is_cut:
        fields["source"] = moved[0][0]
    if is_cut or fields.get("source") != moved[0][0]:
        fields.pop("offset", None)  # unknown, or in the text of the tree
    metadata = chunk.metadata
    if is_cut:
        metadata = with_pages_of(metadata, merge_metadata([own for *_, own in rest]))
    text = text[: moved[-1][2] - moved[0][1]]
    return chunk._replace(text=text, metadata=metadata, fields=fields)


def _span(chunk: Page) -> tuple[int, int]:
    parts = chunk.fields["parts"]
    return parts[0][1], parts[-1][2]
