"""Removing the text of some documents from chunks that also contain text of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from e2graphrag_integrations.corpus.page import Page
from e2graphrag_integrations.pages import merge_metadata, with_pages_of


@dataclass(frozen=True)
class RemovedText:
    """The text of some documents in a tree whose documents share chunks.

    Attributes:
        documents: Ids of the documents.
        shifts: How far each document of the tree moves to the start of the text.
    """

    documents: frozenset[str]
    shifts: Mapping[str, int]

    @classmethod
    def of(cls, chunks: Sequence[Page], documents: frozenset[str]) -> Self:
        """Return the text of some documents.

        Args:
            chunks: All chunks of the tree, with their `parts`.
            documents: Ids of the documents.
        """
        starts: dict[str, int] = {}
        for chunk in chunks:
            for id_, start, *_ in chunk.fields["parts"]:
                starts[id_] = min(start, starts.get(id_, start))
        ordered = sorted(starts, key=lambda id_: starts[id_])
        shifts = dict.fromkeys(ordered[:1], 0)
        for id_, following in pairwise(ordered):
            length = starts[following] - starts[id_] if id_ in documents else 0
            shifts[following] = shifts[id_] + length
        return cls(documents, shifts)

    def rest_of(self, chunks: Iterable[Page]) -> tuple[list[Page], list[str]]:
        """Return the chunks that change, and the ids of those that are to be removed.

        The latter have no other text, or none that another chunk lacks.
        """
        changed: list[Page] = []
        removed: list[str] = []
        moved = [(chunk, self._moved(chunk)) for chunk in chunks]
        removed += [chunk.id for chunk, rest in moved if not rest.text]
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

    def _moved(self, chunk: Page) -> Page:
        """Return what remains of a chunk, which may be nothing, at its new place."""
        parts: Sequence[Sequence[Any]] = chunk.fields["parts"]
        rest = [part for part in parts if part[0] not in self.documents]
        is_cut = len(rest) < len(parts)
        if not rest:
            return chunk._replace(text="")
        if not (is_cut or any(self.shifts[part[0]] for part in rest)):
            return chunk
        first, text = parts[0][1], ""
        for part, following in pairwise([*parts, parts[-1]]):
            if part[0] not in self.documents:
                end = following[1] if following is not part else part[2]
                text += chunk.text[part[1] - first : end - first]
        moved = [
            [id_, start - self.shifts[id_], end - self.shifts[id_], own]
            for id_, start, end, own in rest
        ]
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
