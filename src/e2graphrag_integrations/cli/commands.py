"""What each command of the command line does."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.reports import IndexReport
    from e2graphrag_integrations.types import SourceDocument

OK, NOTHING_FOUND, BAD_INPUT, SOME_FAILED = 0, 1, 2, 3


def index(options: argparse.Namespace) -> int:
    """Index files and folders."""
    from e2graphrag_integrations.engine import E2GraphRAG

    made_by = summarizer(options)
    _check_new(options.out, options.paths)
    documents = _read(options.paths)
    # Asking the price leaves nothing behind.
    fresh = options.estimate and not Path(options.out).exists()
    with E2GraphRAG.open(
        ":memory:" if fresh else options.out,
        embedder=options.embedder,
        extractor=options.spacy_model,
        summarizer=made_by,
        concurrency=options.concurrency,
        chunk_size=options.chunk_size,
        chunk_overlap=options.chunk_overlap,
        group_size=options.group_size,
        chunking=options.cut,
        grouping=options.cut,
    ) as rag:
        if options.estimate:
            return _print_estimate(options, rag.estimate(documents))
        report = _with_bar(lambda bar: _add(rag, documents, bar, replace=options.replace))
    return _print_report(options, report, options.out)


def _add(rag: E2GraphRAG, documents: list[SourceDocument], bar: Any, *, replace: bool) -> Any:
    if replace:
        return rag.add(documents, on_duplicate="replace", progress=bar)
    try:
        return rag.add(documents, progress=bar)
    except DuplicateDocumentError as error:
        raise DuplicateDocumentError(
            f"{error}; from the command line, `e2graphrag update` or --replace"
        ) from error


def update(options: argparse.Namespace) -> int:
    """Bring an index to what files say: replace what changed, add what is new."""
    made_by = summarizer(options)
    documents = _read(options.paths)
    with _existing(options.file, summarizer=made_by, concurrency=options.concurrency) as rag:
        there = {state.id for state in rag.status()}
        given = {document.id for document in documents}
        gone = sorted(there - given) if options.prune else []
        if options.estimate:
            return _print_estimate(options, rag.estimate(documents))
        report = _with_bar(lambda bar: rag.add(documents, on_duplicate="replace", progress=bar))
        if gone:
            rag.delete(gone)
    done = given - set(report.skipped) - set(report.failed)
    changes = {"replaced": sorted(done & there), "added": sorted(done - there), "deleted": gone}
    return _print_report(options, report, options.file, changes)


def delete(options: argparse.Namespace) -> int:
    """Delete documents."""
    from e2graphrag_integrations.cli import output

    with _existing(options.file) as rag:
        report = rag.delete(options.ids)
    _show(options, report.to_dict(), lambda: output.print_deleted(report, options.file))
    return OK


def resume(options: argparse.Namespace) -> int:
    """Go on with what a crash, a stop or a failure left."""
    made_by = summarizer(options)
    with _existing(options.file, summarizer=made_by, concurrency=options.concurrency) as rag:
        report = _with_bar(lambda bar: rag.resume(progress=bar))
    return _print_report(options, report, options.file)


def status(options: argparse.Namespace) -> int:
    """Print how far each document is."""
    from dataclasses import asdict

    from e2graphrag_integrations.cli import output

    with _existing(options.file) as rag:
        states = rag.status()
    value = {"documents": [asdict(state) for state in states]}
    _show(options, value, lambda: output.print_states(states))
    return OK if all(state.status == "done" for state in states) else SOME_FAILED


def compact(options: argparse.Namespace) -> int:
    """Shrink a file."""
    from dataclasses import asdict

    from e2graphrag_integrations.cli import output

    with _existing(options.file) as rag:
        report = rag.compact()
    _show(
        options,
        asdict(report),
        lambda: output.print_line(
            f"{options.file}: {report.bytes_before} to {report.bytes_after} bytes, "
            f"{report.dropped} cached results dropped"
        ),
    )
    return OK


def export(options: argparse.Namespace) -> int:
    """Write an index as a folder of plain files."""
    from e2graphrag_integrations.cli import output

    with _existing(options.file) as rag:
        rag.export_to(options.folder)
    _show(options, {"folder": options.folder}, lambda: output.print_line(f"wrote {options.folder}"))
    return OK


def import_(options: argparse.Namespace) -> int:
    """Make an index of an exported folder."""
    from e2graphrag_integrations.cli import output
    from e2graphrag_integrations.engine import E2GraphRAG

    _check_new(options.out)
    E2GraphRAG.import_from(options.folder, options.out)
    _show(options, {"file": options.out}, lambda: output.print_line(f"wrote {options.out}"))
    return OK


def query(options: argparse.Namespace) -> int:
    """Ask an index."""
    from e2graphrag_integrations import HybridStrategy, PaperStrategy
    from e2graphrag_integrations.cli import output
    from e2graphrag_integrations.cli.where import read_where

    strategies = {"hybrid": HybridStrategy, "paper": PaperStrategy}
    with _existing(options.file) as rag:
        result = rag.retrieve(
            options.question,
            k=options.k,
            mode=options.mode,
            strategy=strategies[options.strategy]() if options.strategy else None,
            expand=options.expand,
            token_budget=options.token_budget,
            where=read_where(options.where),
        )
    if options.context and not options.json:
        output.print_line(result.context())
        if options.profile:
            output.print_profile(result.trace.timings)
    else:
        value = output.result_to_dict(result, explain=options.explain)
        if options.context:
            value["context"] = result.context()
        if options.profile:
            value["seconds"] = dict(result.trace.timings)

        def show() -> None:
            output.print_result(result, explain=options.explain)
            if options.profile:
                output.print_profile(result.trace.timings)

        _show(options, value, show)
    return OK if result.nodes else NOTHING_FOUND


def stats(options: argparse.Namespace) -> int:
    """Print what an index holds."""
    from e2graphrag_integrations.cli import output

    with _existing(options.file) as rag:
        held = rag.stats()
    _show(options, held.to_dict(), lambda: output.print_stats(held))
    return OK


def verify(options: argparse.Namespace) -> int:
    """Check a file."""
    from e2graphrag_integrations.cli import output

    with _existing(options.file) as rag:
        report = rag.verify()
    value = {"ok": report.ok, "checked": dict(report.checked), "problems": list(report.problems)}
    _show(options, value, lambda: output.print_verification(report, options.file))
    return OK if report.ok else BAD_INPUT


def demo(options: argparse.Namespace) -> int:
    """Run the demo."""
    from e2graphrag_integrations.cli.demo import run_demo

    _check_new(options.out)
    run_demo(options.out, options.embedder)
    return OK


def _read(paths: Sequence[str]) -> list[SourceDocument]:
    from e2graphrag_integrations.loaders.loaders import read_documents

    return read_documents(paths, getattr(sys.stdin, "buffer", None))


def _with_bar(work: Callable[[Any], IndexReport]) -> IndexReport:
    from e2graphrag_integrations.indexing.progress import ProgressBar

    bar = ProgressBar()
    try:
        return work(bar)
    finally:
        bar.close()


def _print_estimate(options: argparse.Namespace, estimate: Any) -> int:
    from e2graphrag_integrations.cli.output import print_estimate

    _show(options, estimate.to_dict(), lambda: print_estimate(estimate))
    return OK


def _print_report(
    options: argparse.Namespace,
    report: IndexReport,
    path: str,
    changes: dict[str, list[str]] | None = None,
) -> int:
    from e2graphrag_integrations.cli.output import print_profile, print_report

    value = report.to_dict() | (changes or {})
    value |= {"file": path, "bytes": Path(path).stat().st_size}

    def show() -> None:
        print_report(report, path, changes)
        if options.profile:
            print_profile(report.seconds)

    _show(options, value, show)
    return SOME_FAILED if report.failed else OK


def summarizer(options: argparse.Namespace) -> Any:
    """Return the summarizer that the options name, None for the extractive one."""
    if options.llm_model is None:
        if options.llm_base_url or options.llm_api_key_env:
            raise InvalidInputError("--llm-base-url and --llm-api-key-env need --llm-model")
        return None
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer

    variable = options.llm_api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if getattr(options, "estimate", False):
        key = key or "none"  # nothing is called
    if not key and (options.llm_api_key_env or not options.llm_base_url):
        raise InvalidInputError(f"the environment variable {variable} holds no API key")
    # Servers of one's own mostly take any key, and the client insists on one.
    return OpenAISummarizer(options.llm_model, base_url=options.llm_base_url, api_key=key or "none")


def _check_new(out: str, inputs: Sequence[str] = ()) -> None:
    """Refuse a path that no index can be made at, or one of a file to be read."""
    from e2graphrag_integrations.loaders.loaders import path_exists, source_files
    from e2graphrag_integrations.store.connection import MEMORY

    if out == MEMORY:
        raise InvalidInputError(f"--out {out}: an index in memory would be lost: name a file")
    if path_exists(out) and any(Path(out).samefile(path) for path in source_files(inputs)):
        raise InvalidInputError(f"--out {out} is one of the files to read: give another path")


def _existing(path: str, **options: Any) -> E2GraphRAG:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.loaders.loaders import path_exists

    if not path_exists(path) or not Path(path).is_file():
        raise InvalidInputError(f"there is no index {path}: make one with `e2graphrag index`")
    if Path(path).stat().st_size == 0:
        raise InvalidInputError(
            f"{path} is empty, there is no index in it: make one with `e2graphrag index`"
        )
    return E2GraphRAG.open(path, **options)


def _show(options: argparse.Namespace, value: dict[str, Any], show: Any) -> None:
    from e2graphrag_integrations.cli.output import print_json

    if options.json:
        print_json(value)
    else:
        show()
