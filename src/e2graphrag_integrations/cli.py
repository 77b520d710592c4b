"""The command line: `e2graphrag index | query | stats | verify | demo`.

Exit codes: 0 fine, 1 nothing found, 2 bad input or a damaged file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    E2GraphRAGError,
    InvalidInputError,
)

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.types import SourceDocument

OK, NOTHING_FOUND, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    _escape_what_cannot_be_encoded()
    try:
        options = _parser().parse_args(arguments)
        code = int(options.run(options))
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a failure can still be told
    except E2GraphRAGError as error:
        return _fail(f"error: {error}")
    except KeyboardInterrupt:
        return _fail("interrupted; run the same command again to go on", INTERRUPTED)
    except BrokenPipeError:
        return _fail("", OK)  # the reader has seen enough
    except OSError as error:
        return _fail(f"error: {error}")
    return code


def _escape_what_cannot_be_encoded() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str, code: int = BAD_INPUT) -> int:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # Keep Python from failing again when it flushes at exit.
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        if message and sys.stderr is not None:
            print(message, file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="e2graphrag", description=__doc__.splitlines()[0])
    version = f"%(prog)s {metadata.version('e2graphrag-integrations')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _index_parser(commands)
    _query_parser(commands)
    for name, run, text in (
        ("stats", _stats, "print what an index holds"),
        ("verify", _verify, "check an index file against its own invariants"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("file", metavar="F", help="the index")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=run)
    demo = commands.add_parser("demo", help="index a public-domain novel and ask it six questions")
    demo.add_argument("--out", default="time_machine.e2g", metavar="F", help="the index to make")
    demo.add_argument("--embedder", metavar="NAME", help="as for index")
    demo.set_defaults(run=_demo)
    return parser


def _index_parser(commands: Any) -> None:
    index = commands.add_parser("index", help="index files and folders, or go on with it")
    index.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, or - for stdin")
    index.add_argument("--out", required=True, metavar="F", help="the index; continued if there")
    index.add_argument("--estimate", action="store_true", help="print calls and tokens, and stop")
    index.add_argument("--replace", action="store_true", help="replace documents that changed")
    index.add_argument("--json", action="store_true", help="print JSON")
    index.add_argument(
        "--embedder", metavar="NAME", help="sentence-transformers name or path, or 'hashing'"
    )
    index.add_argument("--spacy-model", metavar="NAME", help="spaCy pipeline, name or path")
    index.add_argument("--chunk-size", type=int, metavar="N", help="tokens a chunk (1200)")
    index.add_argument("--chunk-overlap", type=int, metavar="N", help="tokens shared (100)")
    index.add_argument("--group-size", type=int, metavar="N", help="nodes a summary (5)")
    index.add_argument("--llm-model", metavar="NAME", help="summarise with it; none: extractive")
    index.add_argument("--llm-base-url", metavar="URL", help="an OpenAI-compatible server")
    index.add_argument("--llm-api-key-env", metavar="VAR", help="variable that holds the key")
    index.add_argument("--concurrency", type=int, default=4, metavar="N", help="LLM calls at once")
    index.set_defaults(run=_index)


def _query_parser(commands: Any) -> None:
    query = commands.add_parser("query", help="ask an index")
    query.add_argument("file", metavar="F", help="the index")
    query.add_argument("question")
    query.add_argument("-k", type=int, default=5, metavar="N", help="hits (5)")
    query.add_argument("--mode", choices=("auto", "local", "global"), default="auto")
    query.add_argument("--strategy", choices=("hybrid", "paper"), help="how to rank (hybrid)")
    query.add_argument("--expand", choices=("none", "children", "leaves"), default="none")
    query.add_argument("--token-budget", type=int, metavar="N", help="tokens of context")
    query.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE", help="metadata to match"
    )
    query.add_argument("--context", action="store_true", help="print the text for a prompt instead")
    query.add_argument("--explain", action="store_true", help="print every step")
    query.add_argument("--json", action="store_true", help="print JSON")
    query.set_defaults(run=_query)


def _index(options: argparse.Namespace) -> int:
    from e2graphrag_integrations import cli_output as output
    from e2graphrag_integrations.progress import ProgressBar
    from e2graphrag_integrations.readers import read_documents

    summarizer = _summarizer(options)
    _check_new(options.out, options.paths)
    documents = read_documents(options.paths, getattr(sys.stdin, "buffer", None))
    with _open(options, summarizer) as rag:
        if options.estimate:
            estimate = rag.estimate(documents)
        else:
            bar = ProgressBar()
            try:
                report = _write(rag, documents, bar, replace=options.replace)
            finally:
                bar.close()
    if options.estimate:
        _show(options, estimate.to_dict(), lambda: output.print_estimate(estimate))
    else:
        value = report.to_dict() | {"file": options.out, "bytes": Path(options.out).stat().st_size}
        _show(options, value, lambda: output.print_report(report, options.out))
    return OK


def _write(
    rag: E2GraphRAG, documents: list[SourceDocument], listener: Any, *, replace: bool
) -> Any:
    if not replace:
        try:
            return rag.add(documents, progress=listener)
        except DuplicateDocumentError as error:
            raise DuplicateDocumentError(f"{error}; from the command line, --replace") from error
    there = set(rag.document_ids)
    known = [document for document in documents if document.id in there]
    new = [document for document in documents if document.id not in there]
    return rag.update(known, progress=listener) + rag.add(new, progress=listener)


def _open(options: argparse.Namespace, summarizer: Any) -> E2GraphRAG:
    from e2graphrag_integrations.engine import E2GraphRAG

    # Asking the price leaves nothing behind.
    fresh = options.estimate and not Path(options.out).exists()
    return E2GraphRAG.open(
        ":memory:" if fresh else options.out,
        embedder=options.embedder,
        extractor=options.spacy_model,
        summarizer=summarizer,
        concurrency=options.concurrency,
        chunk_size=options.chunk_size,
        chunk_overlap=options.chunk_overlap,
        group_size=options.group_size,
    )


def _summarizer(options: argparse.Namespace) -> Any:
    if options.llm_model is None:
        if options.llm_base_url or options.llm_api_key_env:
            raise InvalidInputError("--llm-base-url and --llm-api-key-env need --llm-model")
        return None
    from e2graphrag_integrations.openai_chat import OpenAISummarizer

    variable = options.llm_api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if options.estimate:
        key = key or "none"  # nothing is called
    if not key and (options.llm_api_key_env or not options.llm_base_url):
        raise InvalidInputError(f"the environment variable {variable} holds no API key")
    # Servers of one's own mostly take any key, and the client insists on one.
    return OpenAISummarizer(options.llm_model, base_url=options.llm_base_url, api_key=key or "none")


def _check_new(out: str, inputs: Sequence[str] = ()) -> None:
    """Refuse a path that no index can be made at, or one of a file to be read."""
    from e2graphrag_integrations.readers import path_exists, source_files
    from e2graphrag_integrations.store.connection import MEMORY

    if out == MEMORY:
        raise InvalidInputError(f"--out {out}: an index in memory would be lost: name a file")
    if path_exists(out) and any(Path(out).samefile(path) for path in source_files(inputs)):
        raise InvalidInputError(f"--out {out} is one of the files to read: give another path")


def _existing(path: str) -> E2GraphRAG:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.readers import path_exists

    if not path_exists(path) or not Path(path).is_file():
        raise InvalidInputError(f"there is no index {path}: make one with `e2graphrag index`")
    if Path(path).stat().st_size == 0:
        raise InvalidInputError(
            f"{path} is empty, there is no index in it: make one with `e2graphrag index`"
        )
    return E2GraphRAG.open(path)


def _query(options: argparse.Namespace) -> int:
    from e2graphrag_integrations import HybridStrategy, PaperStrategy
    from e2graphrag_integrations import cli_output as output

    strategies = {"hybrid": HybridStrategy, "paper": PaperStrategy}
    with _existing(options.file) as rag:
        result = rag.retrieve(
            options.question,
            k=options.k,
            mode=options.mode,
            strategy=strategies[options.strategy]() if options.strategy else None,
            expand=options.expand,
            token_budget=options.token_budget,
            where=_where(options.where),
        )
    if options.context and not options.json:
        print(result.context())
    else:
        value = output.result_to_dict(result, explain=options.explain)
        if options.context:
            value["context"] = result.context()
        _show(options, value, lambda: output.print_result(result, explain=options.explain))
    return OK if result.nodes else NOTHING_FOUND


def _where(conditions: Sequence[str]) -> dict[str, Any] | None:
    """Read KEY=VALUE pairs; a value that is JSON is taken as such, a repeated key as `$in`."""
    import json

    values: dict[str, list[Any]] = {}
    for condition in conditions:
        key, equals, text = condition.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"--where {condition!r}: write KEY=VALUE")
        try:
            value = json.loads(text)
        except RecursionError:
            raise InvalidInputError(f"--where {key}: its value is nested too deep") from None
        except ValueError:
            value = text
        values.setdefault(key, []).append(value)
    if not values:
        return None
    return {key: found[0] if len(found) == 1 else {"$in": found} for key, found in values.items()}


def _stats(options: argparse.Namespace) -> int:
    from e2graphrag_integrations import cli_output as output

    with _existing(options.file) as rag:
        stats = rag.stats()
    _show(options, stats.to_dict(), lambda: output.print_stats(stats))
    return OK


def _verify(options: argparse.Namespace) -> int:
    from e2graphrag_integrations import cli_output as output

    with _existing(options.file) as rag:
        report = rag.verify()
    value = {"ok": report.ok, "checked": dict(report.checked), "problems": list(report.problems)}
    _show(options, value, lambda: output.print_verification(report, options.file))
    return OK if report.ok else BAD_INPUT


def _demo(options: argparse.Namespace) -> int:
    from e2graphrag_integrations.demo import run_demo

    _check_new(options.out)
    run_demo(options.out, options.embedder)
    return OK


def _show(options: argparse.Namespace, value: dict[str, Any], show: Any) -> None:
    from e2graphrag_integrations.cli_output import print_json

    if options.json:
        print_json(value)
    else:
        show()


if __name__ == "__main__":
    sys.exit(main())
