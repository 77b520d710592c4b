"""The command line: `e2graphrag index | query | update | delete | ... | demo`.

Exit codes: 0 fine, 1 nothing found, 2 bad input or a damaged file, 3 some documents failed or wait.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from e2graphrag_integrations.cli import commands
from e2graphrag_integrations.cli.commands import BAD_INPUT, OK
from e2graphrag_integrations.errors import E2GraphRAGError

INTERRUPTED = 130


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
        return _fail("interrupted; `e2graphrag resume`, or the same again, goes on", INTERRUPTED)
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
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    _index_parser(subparsers)
    _query_parser(subparsers)
    _update_parser(subparsers)
    delete = _file_parser(subparsers, "delete", commands.delete, "delete documents")
    delete.add_argument("ids", nargs="+", metavar="ID", help="documents, see status")
    resume = _file_parser(
        subparsers, "resume", commands.resume, "go on with documents that wait or failed"
    )
    _model_arguments(resume)
    for name, run, text in (
        ("status", commands.status, "print how far each document is"),
        ("stats", commands.stats, "print what an index holds"),
        ("verify", commands.verify, "check an index file against its own invariants"),
        ("compact", commands.compact, "give back the room of what was deleted"),
    ):
        _file_parser(subparsers, name, run, text)
    export = _file_parser(
        subparsers, "export", commands.export, "write an index as JSON lines and npz"
    )
    export.add_argument("folder", metavar="DIR", help="a new folder")
    import_ = subparsers.add_parser("import", help="make an index of what export wrote")
    import_.add_argument("folder", metavar="DIR", help="the folder")
    import_.add_argument("--out", required=True, metavar="F", help="the index to make")
    import_.add_argument("--json", action="store_true", help="print JSON")
    import_.set_defaults(run=commands.import_)
    demo = subparsers.add_parser(
        "demo", help="index a public-domain novel and ask it six questions"
    )
    demo.add_argument("--out", default="time_machine.e2g", metavar="F", help="the index to make")
    demo.add_argument("--embedder", metavar="NAME", help="as for index")
    demo.set_defaults(run=commands.demo)
    return parser


def _file_parser(subparsers: Any, name: str, run: Any, text: str) -> Any:
    command = subparsers.add_parser(name, help=text)
    command.add_argument("file", metavar="F", help="the index")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)
    return command


def _update_parser(subparsers: Any) -> None:
    update = _file_parser(
        subparsers, "update", commands.update, "replace documents that changed, add new ones"
    )
    update.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, or - for stdin")
    update.add_argument("--prune", action="store_true", help="delete documents not among them")
    update.add_argument("--estimate", action="store_true", help="print calls and tokens, and stop")
    _model_arguments(update)


def _model_arguments(command: Any) -> None:
    command.add_argument("--llm-model", metavar="NAME", help="summarize with it; none: extractive")
    command.add_argument("--llm-base-url", metavar="URL", help="an OpenAI-compatible server")
    command.add_argument("--llm-api-key-env", metavar="VAR", help="variable that holds the key")
    command.add_argument(
        "--concurrency", type=int, default=4, metavar="N", help="LLM calls at once"
    )
    command.add_argument("--profile", action="store_true", help="print the time by stage")


def _index_parser(subparsers: Any) -> None:
    index = subparsers.add_parser("index", help="index files and folders, or go on with it")
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
    index.add_argument(
        "--cut", choices=("fixed", "content"), help="content: edits make few summaries anew (fixed)"
    )
    _model_arguments(index)
    index.set_defaults(run=commands.index)


def _query_parser(subparsers: Any) -> None:
    query = subparsers.add_parser("query", help="ask an index")
    query.add_argument("file", metavar="F", help="the index")
    query.add_argument("question")
    query.add_argument("-k", type=int, default=5, metavar="N", help="hits (5)")
    query.add_argument("--mode", choices=("auto", "local", "global"), default="auto")
    query.add_argument("--strategy", choices=("hybrid", "paper"), help="how to rank (hybrid)")
    query.add_argument("--expand", choices=("none", "children", "leaves"), default="none")
    query.add_argument("--token-budget", type=int, metavar="N", help="tokens of context")
    query.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FILTER",
        help="metadata to match: KEY=VALUE, 'year={\"$gte\": 1890}', or a whole JSON filter",
    )
    query.add_argument("--context", action="store_true", help="print the text for a prompt instead")
    query.add_argument("--profile", action="store_true", help="print the time by step")
    query.add_argument("--explain", action="store_true", help="print every step")
    query.add_argument("--json", action="store_true", help="print JSON")
    query.set_defaults(run=commands.query)


if __name__ == "__main__":
    sys.exit(main())
