"""The typer application: its groups and commands, and the exit codes of their results."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from typer.core import TyperGroup

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations.cli.output.terminal import print_line
from e2graphrag_integrations.cli.wording import on_command_line
from e2graphrag_integrations.errors import E2GraphRAGError, EvaluationError

PROGRAM = "e2graphrag"

UsageError: Any = typer.BadParameter.__base__
"""Base class of typer's errors about arguments, which typer does not export."""

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., "ExitCode | None"])


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    NOTHING_FOUND = 1
    """A query found nothing."""
    ERROR = 2
    """Wrong usage, invalid input or a damaged file."""
    INCOMPLETE = 3
    """Some files could not be read, or some documents failed or are still pending."""
    INTERRUPTED = 130
    """Stopped by Ctrl+C; shells report the same code."""


class _Group(TyperGroup):
    """Prints its help if no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            for line in ctx.get_help().splitlines():  # on a terminal, rich has printed it
                print_line(line, error=True)
            raise typer.Exit(ExitCode.ERROR)
        return super().parse_args(ctx, args)


class _ExitCodeGroup(_Group):
    """Runs a command and exits with the code that it returns or the code for its error."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _printable_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> NoReturn:
        try:
            with _printable_usage_errors():
                code = super().invoke(ctx) or ExitCode.OK
            if sys.stdout is not None:
                sys.stdout.flush()  # flush here, so that a failed write is reported
        except BrokenPipeError:
            code = _fail("", ExitCode.OK)  # the reader closed the pipe early, like `head`
        except KeyboardInterrupt:
            code = _fail("interrupted: repeat the command to continue", ExitCode.INTERRUPTED)
        except (E2GraphRAGError, OSError) as error:
            # The settings of an evaluation are written as in Python.
            is_ours = isinstance(error, E2GraphRAGError) and not isinstance(error, EvaluationError)
            text = on_command_line(str(error)) if is_ours else str(error)
            code = _fail(f"error: {text}", ExitCode.ERROR)
        except (UsageError, typer.Exit, typer.Abort):
            raise
        except Exception as error:  # noqa: BLE001 - Python would print it raw and exit with 1
            code = _fail(f"internal error: {type(error).__name__}: {error}", ExitCode.ERROR, error)
        raise typer.Exit(code)


@contextlib.contextmanager
def _printable_usage_errors() -> Iterator[None]:
    """Escape the arguments that typer quotes in its messages; a shell may have expanded `*`."""
    try:
        yield
    except UsageError as error:
        error.message = printable(error.message)
        raise


def _fail(message: str, code: ExitCode, bug: Exception | None = None) -> ExitCode:
    """Print a message, with the traceback if the program is to blame, and return the code."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # Python flushes again at exit; without this, that flush would fail with a traceback.
        with Path(os.devnull).open("wb") as devnull:
            os.dup2(devnull.fileno(), sys.stdout.fileno())
    for line in "".join(traceback.format_tb(bug.__traceback__)).splitlines() if bug else ():
        print_line(line, error=True)
    if message:
        print_line(redact(message), error=True)
    return code


app = typer.Typer(
    name=PROGRAM,
    cls=_ExitCodeGroup,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def group(name: str, text: str) -> Callable[[CommandFunction], CommandFunction]:
    """Add a group of commands, and return the decorator that registers its commands.

    Args:
        name: The name of the group.
        text: Its help text, which ends with the examples.
    """
    commands = typer.Typer(name=name, cls=_Group, rich_help_panel="Groups", **_help(text))
    app.add_typer(commands)
    return functools.partial(_register, commands)


def command(function: CommandFunction) -> CommandFunction:
    """Register a function as a command at the top, like `group` within a group.

    Its name is the function's, in which `_` becomes `-`. The function's docstring becomes the help
    text, which ends with the examples.
    """
    return _register(app, function)


def _register(parent: typer.Typer, function: CommandFunction) -> CommandFunction:
    name = function.__name__.rstrip("_").replace("_", "-")
    return parent.command(name, **_help(function.__doc__ or ""))(function)


def _help(docstring: str) -> Any:
    """Return the help text and the epilog with the examples, as typer's parameters."""
    text, title, examples = inspect.cleandoc(docstring).partition("Examples:\n")
    # typer does not rewrap a paragraph that starts with a backspace character.
    return {"help": text, "epilog": f"\b\n{title}{examples}"}


def _print_version(show: bool) -> None:
    if show:
        from importlib import metadata

        print_line(f"{PROGRAM} {metadata.version('e2graphrag-integrations')}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Index documents and search them with E2GraphRAG.

    Every command and every group of commands has its own --help.

    Exit codes: 0 success, 1 nothing found, 2 error, 3 some files or documents failed or are
    pending, 130 interrupted.

    Examples:
      e2graphrag index novels/ --out novels.e2g
      e2graphrag query novels.e2g "Who was Filby?"
      e2graphrag documents --help
    """


app.callback(**_help(_root.__doc__ or ""))(_root)
