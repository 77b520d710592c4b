"""Writing a report: the parts in the order in which a browser needs them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.new_path import new_path
from e2graphrag_integrations._utils.validation import check_bool, check_text, short_repr
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.html_report import contents
from e2graphrag_integrations.html_report.assemble import (
    GENERATOR,
    LANGUAGES,
    PAGE_END,
    block,
    page_start,
)
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.retrieval.outline import DocumentInfo
from e2graphrag_integrations.settings import checked_path
from e2graphrag_integrations.views.answer import AnswerView, Settings, ask
from e2graphrag_integrations.views.documents import Readable
from e2graphrag_integrations.views.index_name import index_name
from e2graphrag_integrations.views.json_values import to_json

DEFAULT_MB = 25.0
"""Default size of the texts and trees in a report."""

MAX_MB = 500.0
"""Largest possible size."""

MAX_QUESTIONS = 100
"""Maximum number of questions."""

_MB = 1_000_000

_HEAD = 1_000
"""Number of bytes at the start of a file by which a report is recognized."""


@dataclass(frozen=True, slots=True)
class HtmlReport:
    """A report that was written.

    Attributes:
        path: The file.
        bytes: Its size.
        answers: Number of answered questions.
        documents: Number of documents with their text and tree.
        left_out: Number of documents without.
        entities: Number of entities with their neighborhoods.
    """

    path: str
    bytes: int
    answers: int
    documents: int
    left_out: int
    entities: int

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return asdict(self)


def write_report(
    reader: Readable,
    path: str | os.PathLike[str],
    *,
    questions: Sequence[str] = (),
    max_mb: float = DEFAULT_MB,
    replace: bool = False,
    language: str | None = None,
) -> HtmlReport:
    """Write an index, and its answers to questions, to one HTML file that needs no network.

    The file contains the statistics, the documents, the answers with their paths, the most
    mentioned entities with their neighborhoods, and the texts and trees of as many documents as
    fit: first those of the answers, and then all others by id. It states what it leaves out.

    Args:
        reader: The index, or a scope, of which the report contains nothing else.
        path: The file to create.
        questions: At most 100 questions to answer, with the default settings of `retrieve`.
        max_mb: Maximum size of the texts and trees in MB (10^6 bytes), at most 500. All else takes
            about 1 MB, and a further 0.1 MB for each answer.
        replace: Whether to replace an existing report. No other file is ever replaced.
        language: `en` or `zh`, in which the report describes the index; None means Chinese if most
            documents are, and otherwise English.

    Raises:
        InvalidInputError: If an argument is invalid, the file exists, or its folder does not.
        E2GraphRAGError: If a question cannot be answered.
        StoreError: If the file cannot be written. An existing file is unchanged.
    """
    target = _check_target(path, reader.path, replace=check_bool("replace", replace))
    asked = _check_questions(questions)
    size = _check_size(max_mb)
    language = _check_language(language) or _language_of(reader)
    answers = [ask(reader, question, Settings({"paths": True})) for question in asked]
    graph = contents.graph(reader, answers)
    listed, total = contents.documents(reader)
    chosen = _choose(reader, {info.id: info for info, _ in listed}, answers, size)
    places = {document: place for place, (document, _) in enumerate(chosen)}
    rows = [
        # The last column is the place of the text, or -1.
        [info.id, info.title, info.chunks, info.end, code, places.get(info.id, -1)]
        for info, code in listed
    ]
    graph_note = _graph_note(len(graph["items"]), graph["total"])
    tree_note = _tree_note(len(chosen), total, max_mb)
    notes = (graph_note, tree_note, _unindexed_note(reader), _listed_note(len(listed), total))
    start = {
        "name": index_name(reader.path),
        "facts": _facts(reader),
        "notes": [note for note in notes if note is not None],
        "graph_note": graph_note,
        "tree_note": tree_note,
        "statistics": contents.statistics(reader),
        "documents": total,
        "questions": asked,
        "piece": contents.PIECE,
    }

    def parts() -> Iterator[str]:
        yield page_start(str(start["name"]), start, language)
        for place, answer in enumerate(answers):
            yield block(f"answer-{place}", to_json(answer))
        yield block("graph", graph)
        yield block("documents", rows)
        yield from (text for _, text in chosen)
        yield PAGE_END

    with new_path(target, replace=replace) as temporary, temporary.open("wb") as file:
        for part in parts():
            file.write(part.encode("utf-8", "replace"))
    return HtmlReport(
        str(target),
        target.stat().st_size,
        len(answers),
        len(chosen),
        total - len(chosen),
        len(graph["items"]),
    )


def _check_target(path: str | os.PathLike[str], index: str, *, replace: bool) -> Path:
    target = Path(checked_path(path))
    if target.is_dir():
        raise InvalidInputError(f"{target} is a folder: name a file, such as report.html")
    if target.exists() or target.is_symlink():
        if target.exists() and Path(index).exists() and target.samefile(index):
            raise InvalidInputError(
                f"{target} is the index itself: choose another name, such as {target.stem}.html"
            )
        if not _is_report(target):
            raise InvalidInputError(f"{target} is not a report, so it stays: choose another name")
        if not replace:
            raise InvalidInputError(
                f"{target} already exists: pass replace=True to replace this report, or choose "
                "another name"
            )
    if not target.parent.is_dir():
        raise InvalidInputError(f"the folder {target.parent} does not exist: create it first")
    return target


def _is_report(path: Path) -> bool:
    """Return whether a file is a report; any other one, such as an index, must not be replaced."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return GENERATOR.encode("ascii") in file.read(_HEAD)
    except OSError:
        return False


def _check_questions(questions: Sequence[str]) -> list[str]:
    if isinstance(questions, str):
        raise InvalidInputError("questions must be a list of texts, not a single text")
    asked = [check_text("question", question) for question in questions]
    if len(asked) > MAX_QUESTIONS:
        raise InvalidInputError(
            f"{len(asked)} questions are more than a report answers, {MAX_QUESTIONS}"
        )
    return asked


def _check_size(max_mb: float) -> int:
    """Return the size in bytes."""
    is_number = isinstance(max_mb, int | float) and not isinstance(max_mb, bool)
    if not is_number or not 0 <= max_mb <= MAX_MB:
        raise InvalidInputError(
            f"max_mb={short_repr(max_mb)} must be a number from 0 to {MAX_MB:g}"
        )
    return int(max_mb * _MB)


def _choose(
    reader: Readable, infos: Mapping[str, DocumentInfo], answers: Sequence[AnswerView], size: int
) -> list[tuple[str, str]]:
    """Return the ids and the blocks of the documents that fit."""
    cited = (node.document_id for answer in answers for node in answer.nodes)
    chosen: list[tuple[str, str]] = []
    for id_ in dict.fromkeys([*(id_ for id_ in cited if id_ in infos), *infos]):
        if infos[id_].end > size:  # a character has at least one byte
            continue
        found = contents.document(reader, id_)
        if found is None:
            continue
        text = block(f"text-{len(chosen)}", found)
        bytes_ = len(text.encode("utf-8", "replace"))
        if bytes_ <= size:
            chosen.append((id_, text))
            size -= bytes_
    return chosen


def _check_language(language: str | None) -> str | None:
    if language is not None and language not in LANGUAGES:
        raise InvalidInputError(
            f"language={short_repr(language)} must be None or one of {', '.join(LANGUAGES)}"
        )
    return language


def _language_of(reader: Readable) -> str:
    """Return the language of most documents, if a report can be in it, or else English."""
    counts = reader.stats().languages
    main = max(counts, key=lambda code: counts[code], default=ENGLISH)
    return main if main in LANGUAGES else ENGLISH


# What the report says about itself, as codes with values: the script has the messages.


def _note(code: str, **values: Any) -> dict[str, Any]:
    return {"code": code, "values": values}


def _graph_note(entities: int, total: int) -> dict[str, Any] | None:
    if not total:
        return None
    return _note(
        "some_entities" if entities < total else "all_entities",
        entities=entities,
        total=total,
        neighbors=contents.NEIGHBORS - 1,
        mentions=contents.MENTIONS,
        edges=contents.EDGES,
    )


def _tree_note(included: int, total: int, max_mb: float) -> dict[str, Any] | None:
    if included == total:
        return None
    return _note("some_texts", included=included, total=total, size=max_mb)


def _listed_note(listed: int, total: int) -> dict[str, Any] | None:
    return None if listed == total else _note("listed", listed=listed)


def _unindexed_note(reader: Readable) -> dict[str, Any] | None:
    """Return the number of documents that are not indexed; a scope contains none of them."""
    if isinstance(reader, ScopedReader):
        return None
    states = Counter(one.status for one in reader.status() if one.status != "done")
    return _note("unindexed", counts=dict(sorted(states.items()))) if states else None


def _facts(reader: Readable) -> list[dict[str, Any]]:
    """Return the origin of the report."""
    version = metadata.version("e2graphrag-integrations")
    facts = [
        _note("created", date=datetime.now(UTC).date().isoformat()),
        _note("version", version=version),
    ]
    if isinstance(reader, ScopedReader):
        facts.append(_note("scope", scope=json.dumps(reader.where, ensure_ascii=False)))
    return facts
