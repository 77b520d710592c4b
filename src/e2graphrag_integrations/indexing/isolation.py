"""Model calls in slices; a slice that fails is split until the failing document is found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import IndexingError
from e2graphrag_integrations.indexing.run import RunControl

_SLICE_SIZE = 64
"""Items per call of an extractor or embedder. Bounds the work that a crash can lose."""

T = TypeVar("T")


@dataclass(frozen=True)
class WorkItem(Generic[T]):
    """One item that a model processes.

    Attributes:
        key: Cache key of the result.
        value: Model input.
        owners: Ids of the documents that need the result.
    """

    key: bytes
    value: T
    owners: tuple[str, ...]


def run_in_slices(
    items: Sequence[WorkItem[T]],
    process: Callable[[Sequence[WorkItem[T]]], None],
    error_type: type[IndexingError],
    stage: str,
    control: RunControl,
) -> Iterator[int]:
    """Process items slice by slice, and yield the number of items of each finished slice.

    If a slice with items of several documents fails, the items of each document are retried
    separately, so that only the document at fault is skipped.

    Args:
        items: Items with unique keys.
        process: Processes a slice and stores its results.
        error_type: Wraps exceptions of the model.
        stage: Name in error messages.
        control: Receives failures; ends the loop after a stop request.

    Raises:
        WorkStopped: After a stop request.
    """
    failures = control.failures
    finished: set[bytes] = set()
    for start in range(0, len(items), _SLICE_SIZE):
        slices = deque([items[start : start + _SLICE_SIZE]])
        while slices:
            control.check_stop()
            part = [
                item
                for item in slices.popleft()
                if item.key not in finished
                and any(owner not in failures.failed for owner in item.owners)
            ]
            if not part:
                continue
            try:
                with wrap_errors(error_type, f"{stage} failed"):
                    process(part)
            except IndexingError as error:
                suspects = list(dict.fromkeys(owner for item in part for owner in item.owners))
                if not failures.record_failure(suspects, error):
                    slices.extend(
                        [replace(item, owners=(s,)) for item in part if s in item.owners]
                        for s in suspects
                    )
                continue
            failures.record_success(error_type)
            finished.update(item.key for item in part)
            yield len(part)
