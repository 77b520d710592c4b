"""Print lines, tables and JSON: plain text in pipes, tables and colors on terminals.

The plain text has no escape codes and no line wrapping, because scripts parse it. rich draws the
output for terminals and honors `NO_COLOR`. All text is printed literally, without console markup,
and its control characters are escaped: only this module prints, so that a hostile document or file
name cannot control the terminal or forge a line.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from e2graphrag_integrations._utils.display import printable, printable_json, printable_lines


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that can show boxes and move the cursor."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def print_line(text: str = "", *, error: bool = False) -> None:
    """Print one line, to standard error if `error` is set; tabs between columns are kept.

    A line that standard error cannot take is lost, because a message must not stop the work.
    """
    stream = sys.stderr if error else sys.stdout
    with contextlib.suppress(*((OSError,) if error else ())):
        if stream is not None:  # None if the caller closed it; `print` would use standard output
            print("\t".join(map(printable, text.split("\t"))), file=stream)


def print_text(text: str) -> None:
    """Print a text with its line breaks and tabs."""
    print(printable_lines(text))


def print_styled(text: str, style: str) -> None:
    """Print one line; on terminals, use a rich style such as `"bold"`."""
    if not is_terminal(sys.stdout):
        print_line(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(printable(text), style), soft_wrap=True)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    plain: Iterable[str],
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print a table.

    Args:
        columns: Column titles.
        rows: Cells of each row; numbers are aligned to the right.
        plain: Lines to print instead if the output is not a terminal. Texts from elsewhere in
            lines with tabs must be printable, since tabs separate the columns.
        styles: Maps the text of a cell to its rich style.
    """
    if not is_terminal(sys.stdout):
        for line in plain:
            print_line(line)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD)
    for position, title in enumerate(columns):
        numeric = all(row[position][:1].isdigit() for row in cells if row[position])
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, (styles or {}).get(cell, "")) for cell in row))
    Console().print(table)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; escape non-ASCII characters unless the output is UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    escape = codecs.lookup(encoding).name != "utf-8"
    print(printable_json(json.dumps(value, ensure_ascii=escape, indent=2)))


def print_summary(text: str, value: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one line, or a JSON object if `as_json` is set."""
    if as_json:
        print_json(value)
    else:
        print_line(text)


def print_profile(seconds: Mapping[str, float]) -> None:
    """Print the seconds spent in each stage and its share of the sum of all stages.

    Indexing stages run in parallel, so their sum can exceed the wall time, `total`.
    """
    stages = {stage: spent for stage, spent in seconds.items() if stage != "total"}
    total = sum(stages.values())
    rows = [
        (stage, f"{spent:.4f}", f"{spent / total if total else 0:.1%}")
        for stage, spent in sorted(stages.items(), key=lambda item: -item[1])
    ]
    label = "wall" if "total" in seconds else "sum"
    rows.append((label, f"{seconds.get('total', total):.4f}", ""))
    columns = ("stage", "seconds", "share")
    lines = (
        f"{stage:<12}{spent:>10}{share:>8}".rstrip() for stage, spent, share in [columns, *rows]
    )
    print_table(columns, rows, lines)
