"""The commands, one function each; the docstring of a function is the help text of its command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from e2graphrag_integrations.cli import output
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.inputs import (
    check_new_index,
    make_summarizer,
    open_index,
    read_sources,
)
from e2graphrag_integrations.cli.options import (
    Concurrency,
    Embedder,
    EstimateOnly,
    IndexFile,
    Json,
    LLMApiKeyEnv,
    LLMBaseURL,
    LLMModel,
    NewIndexFile,
    Profile,
    Sources,
)
from e2graphrag_integrations.cli.where import parse_where
from e2graphrag_integrations.errors import DuplicateDocumentError

if TYPE_CHECKING:
    from e2graphrag_integrations.reports import CostEstimate, IndexReport


@command(
    "index",
    "index novels/ --out novels.e2g",
    "index novels/ notes.md --out novels.e2g --llm-model gpt-5-mini --estimate",
    "index novels/ --out living.e2g --cut content",
)
def index(
    paths: Sources,
    *,
    out: Annotated[str, typer.Option(metavar="INDEX", help="Index file; created or extended.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace documents whose text changed.")
    ] = False,
    estimate: EstimateOnly = False,
    profile: Profile = False,
    json: Json = False,
    embedder: Embedder = None,
    spacy_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name or path of a spaCy pipeline (default: bundled English)."
        ),
    ] = None,
    chunk_size: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens per chunk (default: 1200).")
    ] = None,
    chunk_overlap: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tokens that adjacent chunks share (default: 100)."),
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(metavar="N", help="Nodes per summary (default: 5).")
    ] = None,
    cut: Annotated[
        Literal["fixed", "content"] | None,
        typer.Option(
            help="Cut chunks at a fixed size or at content-defined boundaries. With the latter, "
            "an edit regenerates fewer summaries (default: fixed)."
        ),
    ] = None,
    llm_model: LLMModel = None,
    llm_base_url: LLMBaseURL = None,
    llm_api_key_env: LLMApiKeyEnv = None,
    concurrency: Concurrency = 4,
) -> ExitCode:
    """Index files and folders.

    Run the command again to add files or to resume after an interruption: unchanged documents
    are skipped.
    """
    from e2graphrag_integrations.engine import E2GraphRAG

    summarizer = make_summarizer(llm_model, llm_base_url, llm_api_key_env, estimate=estimate)
    check_new_index(out, paths)
    documents = read_sources(paths)
    # An estimate leaves no file behind.
    in_memory = estimate and not Path(out).exists()
    with E2GraphRAG.open(
        ":memory:" if in_memory else out,
        embedder=embedder,
        extractor=spacy_model,
        summarizer=summarizer,
        concurrency=concurrency,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        group_size=group_size,
        chunking=cut,
        grouping=cut,
    ) as rag:
        if estimate:
            return _print_estimate(rag.estimate(documents), as_json=json)
        with output.progress_bar() as progress:
            try:
                report = rag.add(
                    documents,
                    on_duplicate="replace" if replace else "error",
                    progress=progress,
                )
            except DuplicateDocumentError as error:
                hint = "on the command line, use --replace or `e2graphrag update`"
                raise DuplicateDocumentError(f"{error}; {hint}") from error
    return _print_report(report, out, as_json=json, profile=profile)


@command(
    "query",
    'query novels.e2g "Why did Filby not believe in the Time Machine?"',
    'query novels.e2g "Who was Filby?" -k 3 --explain',
    'query novels.e2g "Who was Filby?" --context --token-budget 500',
    "query novels.e2g \"Who was Filby?\" --where 'document_id=the_time_machine.txt' --json",
)
def query(
    index: IndexFile,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    *,
    k: Annotated[int, typer.Option("-k", metavar="N", help="Maximum number of hits.")] = 5,
    mode: Annotated[
        Literal["auto", "local", "global"],
        typer.Option(help="Rank by entities (local), by text (global), or choose per question."),
    ] = "auto",
    strategy: Annotated[
        Literal["hybrid", "paper"],
        typer.Option(help="Fused ranking, or the algorithm of the E2GraphRAG paper."),
    ] = "hybrid",
    expand: Annotated[
        Literal["none", "children", "leaves"],
        typer.Option(help="Replace summaries by the nodes below them."),
    ] = "none",
    token_budget: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of tokens of all hits.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER",
            help="Metadata filter: KEY=VALUE, 'year={\"$gte\": 1890}' or a JSON object. "
            "Repeat it to combine filters.",
        ),
    ] = None,
    context: Annotated[
        bool, typer.Option("--context", help="Print the hits as text for a prompt.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every step of the retrieval.")
    ] = False,
    profile: Profile = False,
    json: Json = False,
) -> ExitCode:
    """Search an index.

    Prints the route, the linked entities and the best chunks and summaries with their exact
    character spans.
    """
    from e2graphrag_integrations import HybridStrategy, PaperStrategy

    strategies = {"hybrid": HybridStrategy, "paper": PaperStrategy}
    with open_index(index) as rag:
        result = rag.retrieve(
            question,
            k=k,
            mode=mode,
            strategy=strategies[strategy](),
            expand=expand,
            token_budget=token_budget,
            where=parse_where(where or ()),
        )
    if json:
        value = output.result_to_dict(result, explain=explain)
        if context:
            value["context"] = result.context()
        if profile:
            value["seconds"] = dict(result.trace.timings)
        output.print_json(value)
    else:
        if context:
            output.print_line(result.context())
        else:
            output.print_result(result, explain=explain)
        if profile:
            output.print_profile(result.trace.timings)
    return ExitCode.OK if result.nodes else ExitCode.NOTHING_FOUND


@command(
    "update",
    "update novels.e2g novels/",
    "update novels.e2g novels/ --prune",
    "update novels.e2g novels/ --llm-model gpt-5-mini --estimate",
)
def update(
    index: IndexFile,
    paths: Sources,
    *,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents that are not among the given files.")
    ] = False,
    estimate: EstimateOnly = False,
    profile: Profile = False,
    json: Json = False,
    llm_model: LLMModel = None,
    llm_base_url: LLMBaseURL = None,
    llm_api_key_env: LLMApiKeyEnv = None,
    concurrency: Concurrency = 4,
) -> ExitCode:
    """Replace changed documents and add new ones.

    Only the summaries above changed chunks are regenerated.
    """
    summarizer = make_summarizer(llm_model, llm_base_url, llm_api_key_env, estimate=estimate)
    documents = read_sources(paths)
    with open_index(index, summarizer=summarizer, concurrency=concurrency) as rag:
        if estimate:
            return _print_estimate(rag.estimate(documents), as_json=json)
        indexed_ids = {state.id for state in rag.status()}
        given_ids = {document.id for document in documents}
        deleted_ids = sorted(indexed_ids - given_ids) if prune else []
        with output.progress_bar() as progress:
            report = rag.add(documents, on_duplicate="replace", progress=progress)
        if deleted_ids:
            rag.delete(deleted_ids)
    changed_ids = given_ids - set(report.skipped) - set(report.failed)
    changes = {
        "replaced": sorted(changed_ids & indexed_ids),
        "added": sorted(changed_ids - indexed_ids),
        "deleted": deleted_ids,
    }
    return _print_report(report, index, changes, as_json=json, profile=profile)


@command("delete", "delete novels.e2g the_time_machine.txt")
def delete(
    index: IndexFile,
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", help="Document ids, as `e2graphrag status` prints them."),
    ],
    *,
    json: Json = False,
) -> ExitCode:
    """Delete documents and their summaries."""
    with open_index(index) as rag:
        report = rag.delete(ids)
    if json:
        output.print_json(report.to_dict())
    else:
        output.print_deleted(report, index)
    return ExitCode.OK


@command("resume", "resume novels.e2g")
def resume(
    index: IndexFile,
    *,
    profile: Profile = False,
    json: Json = False,
    llm_model: LLMModel = None,
    llm_base_url: LLMBaseURL = None,
    llm_api_key_env: LLMApiKeyEnv = None,
    concurrency: Concurrency = 4,
) -> ExitCode:
    """Index the documents that are pending or failed."""
    summarizer = make_summarizer(llm_model, llm_base_url, llm_api_key_env)
    with (
        open_index(index, summarizer=summarizer, concurrency=concurrency) as rag,
        output.progress_bar() as progress,
    ):
        report = rag.resume(progress=progress)
    return _print_report(report, index, as_json=json, profile=profile)


@command("status", "status novels.e2g")
def status(index: IndexFile, *, json: Json = False) -> ExitCode:
    """Print the state of every document.

    The states are done, pending, processing and failed. The exit code is 3 unless all are done.
    """
    with open_index(index) as rag:
        states = rag.status()
    if json:
        output.print_json({"documents": [asdict(state) for state in states]})
    else:
        output.print_states(states)
    done = all(state.status == "done" for state in states)
    return ExitCode.OK if done else ExitCode.INCOMPLETE


@command("stats", "stats novels.e2g", "stats novels.e2g --json")
def stats(index: IndexFile, *, json: Json = False) -> ExitCode:
    """Print the size and the settings of an index."""
    with open_index(index) as rag:
        figures = rag.stats()
    if json:
        output.print_json(figures.to_dict())
    else:
        output.print_stats(figures)
    return ExitCode.OK


@command("verify", "verify novels.e2g")
def verify(index: IndexFile, *, json: Json = False) -> ExitCode:
    """Check an index file for damage."""
    with open_index(index) as rag:
        report = rag.verify()
    if json:
        value = {"ok": report.ok, "checked": dict(report.checked)}
        output.print_json(value | {"problems": list(report.problems)})
    else:
        output.print_verification(report, index)
    return ExitCode.OK if report.ok else ExitCode.ERROR


@command("compact", "compact novels.e2g")
def compact(index: IndexFile, *, json: Json = False) -> ExitCode:
    """Reclaim disk space from deleted documents."""
    with open_index(index) as rag:
        report = rag.compact()
    if json:
        output.print_json(asdict(report))
    else:
        output.print_line(
            f"{index}: {report.bytes_before} to {report.bytes_after} bytes, "
            f"{report.dropped} cached results dropped"
        )
    return ExitCode.OK


@command("export", "export novels.e2g novels-export")
def export(
    index: IndexFile,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder to create.")],
    *,
    json: Json = False,
) -> ExitCode:
    """Export an index as JSON Lines and NumPy arrays."""
    with open_index(index) as rag:
        rag.export_to(folder)
    if json:
        output.print_json({"folder": folder})
    else:
        output.print_line(f"wrote {folder}")
    return ExitCode.OK


@command("import", "import novels-export --out copy.e2g")
def import_(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder that `e2graphrag export` created.")
    ],
    *,
    out: NewIndexFile,
    json: Json = False,
) -> ExitCode:
    """Create an index from an exported folder."""
    from e2graphrag_integrations.engine import E2GraphRAG

    check_new_index(out)
    E2GraphRAG.import_from(folder, out)
    if json:
        output.print_json({"file": out})
    else:
        output.print_line(f"wrote {out}")
    return ExitCode.OK


@command("demo", "demo", "demo --out time_machine.e2g")
def demo(*, out: NewIndexFile = "time_machine.e2g", embedder: Embedder = None) -> ExitCode:
    """Index a public-domain novel and ask it six questions."""
    from e2graphrag_integrations.cli.demo import run_demo

    check_new_index(out)
    run_demo(out, embedder)
    return ExitCode.OK


def _print_estimate(estimate: CostEstimate, *, as_json: bool) -> ExitCode:
    if as_json:
        output.print_json(estimate.to_dict())
    else:
        output.print_estimate(estimate)
    return ExitCode.OK


def _print_report(
    report: IndexReport,
    path: str,
    changes: Mapping[str, Sequence[str]] | None = None,
    *,
    as_json: bool,
    profile: bool,
) -> ExitCode:
    if as_json:
        value: dict[str, Any] = report.to_dict() | dict(changes or {})
        output.print_json(value | {"file": path, "bytes": Path(path).stat().st_size})
    else:
        output.print_report(report, path, changes)
        if profile:
            output.print_profile(report.seconds)
    return ExitCode.INCOMPLETE if report.failed else ExitCode.OK
