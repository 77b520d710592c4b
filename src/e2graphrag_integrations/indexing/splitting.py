"""Splitting documents on the workers of an engine, before they are planned in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from e2graphrag_integrations.errors import IndexingError
from e2graphrag_integrations.indexing.planning import DocumentPlanner, Splitter
from e2graphrag_integrations.indexing.stages.work import (
    ComponentName,
    Slice,
    StageRunner,
    StageWork,
)
from e2graphrag_integrations.reports import Stage
from e2graphrag_integrations.store.records import document_fields, document_from_fields
from e2graphrag_integrations.types import SourceDocument, Span

_SLICE_CHARACTERS = 500_000
"""Length of the texts in a slice."""

_FEW_CHARACTERS = 2_000_000
"""Length of the texts up to which the settings split them in this process, within two seconds."""


class SplittingError(IndexingError):
    """Raised on a worker if a document cannot be split; it is then split in this process."""


def split_remotely(
    documents: Sequence[SourceDocument], planner: DocumentPlanner, runner: StageRunner
) -> DocumentPlanner:
    """Split documents with a runner, and return a planner for one run that knows the results.

    A document that cannot be split is split again when it is planned, which reports the error.
    """
    planner = planner.for_run()
    is_slow = planner.splitter is not None or _length(documents) > _FEW_CHARACTERS
    if not (runner.is_remote("chunk") and is_slow):
        return planner
    ids: dict[int, list[str]] = {}

    def slices() -> Iterator[Slice[DocumentInput]]:
        for number, part in enumerate(_parts(documents)):
            ids[number] = [one.id for one in part]
            yield Slice(number, [(one.id, document_fields(one)) for one in part])

    spans: dict[str, list[Span]] = {}
    for result in runner.run(SplittingWork(planner), slices()):
        for id_, value in zip(ids.pop(result.number), result.values, strict=False):
            pairs = np.frombuffer(value, np.dtype("<i8")).reshape(-1, 2).tolist()
            spans[id_] = [Span(*pair) for pair in pairs]
    return planner.with_spans(spans)


def _length(documents: Iterable[SourceDocument]) -> int:
    return sum(len(document.text) for document in documents)


def _parts(documents: Iterable[SourceDocument]) -> Iterator[list[SourceDocument]]:
    part: list[SourceDocument] = []
    for document in documents:
        part.append(document)
        if _length(part) >= _SLICE_CHARACTERS:
            yield part
            part = []
    if part:
        yield part


DocumentInput = tuple[str, Mapping[str, Any]]
"""The id of a document, and its fields; see `document_fields`."""


@dataclass(frozen=True)
class SplittingWork(StageWork[DocumentInput]):
    """Splits documents into chunks."""

    stage: ClassVar[Stage] = "chunk"
    name: ClassVar[str] = "splitting"
    component_name: ClassVar[ComponentName] = "splitter"
    error_type: ClassVar[type[IndexingError]] = SplittingError

    planner: DocumentPlanner

    def __call__(self, inputs: Sequence[DocumentInput]) -> list[bytes]:
        """Return the encoded spans of the chunks of each document."""
        return [self._split(document_from_fields(*one)) for one in inputs]

    def _split(self, document: SourceDocument) -> bytes:
        try:
            spans = self.planner.split(document)
        except Exception as error:  # the user's splitter may raise anything
            raise SplittingError(str(error)) from error
        return np.asarray(spans, np.dtype("<i8")).tobytes()

    @property
    def component(self) -> Splitter | None:
        """The user's splitter."""
        return self.planner.splitter

    def recipe(self) -> Callable[[Splitter | None], SplittingWork]:
        """Return a function that creates this work with a splitter."""
        return partial(_splitting_work, planner=replace(self.planner, splitter=None, _spans=None))


def _splitting_work(splitter: Splitter | None, planner: DocumentPlanner) -> SplittingWork:
    return SplittingWork(replace(planner, splitter=splitter))
