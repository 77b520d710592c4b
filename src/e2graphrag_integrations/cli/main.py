"""The entry point of the command line."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence

from typer.core import MarkupMode
from typer.main import get_command

from e2graphrag_integrations.cli.app import PROGRAM, app
from e2graphrag_integrations.cli.output.terminal import is_terminal, print_line
from e2graphrag_integrations.cli.wording import on_command_line

# The order in which these modules register their commands and groups is that of the help.
# isort: off
from e2graphrag_integrations.cli.commands import index, query, serve, mcp, evaluate, demo  # noqa: F401
from e2graphrag_integrations.cli.commands import documents, entities, export, indexes, shards  # noqa: F401
# isort: on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code (`ExitCode`).

    Args:
        arguments: Arguments without the program name; None means those in `sys.argv`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # typer draws help and usage errors with boxes and colors; pipes get plain text.
    terminal = is_terminal(sys.stdout) and is_terminal(sys.stderr)
    try:
        with _printed_warnings():
            # Calling `app` directly would also replace `sys.excepthook`.
            _command("rich" if terminal else None)(arguments, prog_name=PROGRAM)
    except SystemExit as stop:  # typer always exits, even after success
        return int(stop.code or 0)
    raise AssertionError("typer returned without an exit code")


@functools.cache
def _command(markup: MarkupMode) -> Callable[..., object]:
    """Return the command with all others below it; reading their options takes a while."""
    app.rich_markup_mode = markup
    return get_command(app)


class _PrintingHandler(logging.Handler):
    """Prints log records as escaped lines; a parser's warning can quote the file that it reads."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.name.startswith("e2graphrag_integrations"):
            message = on_command_line(message)
        print_line(f"{record.levelname.lower()}: {message}", error=True)


@contextlib.contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print logged warnings, errors and Python's own warnings with `_PrintingHandler`."""
    handler = _PrintingHandler(logging.WARNING)
    # pypdf warns about each defect that it repairs; a crafted file has a hundred thousand.
    handler.addFilter(lambda record: not record.name.startswith("pypdf"))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.removeHandler(handler)
