"""Print the size, the settings and the damage of indexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from e2graphrag_integrations.cli.output.terminal import (
    print_json,
    print_line,
    print_styled,
    print_table,
)

if TYPE_CHECKING:
    from e2graphrag_integrations import reports
    from e2graphrag_integrations.store.location import IndexInfo


def print_indexes(indexes: Sequence[IndexInfo], *, as_json: bool) -> None:
    """Print the indexes in a database, one per line."""
    if as_json:
        print_json({"indexes": [asdict(one) for one in indexes]})
        return
    rows = [
        (one.schema, "?" if one.documents is None else str(one.documents), f"{one.bytes / 1e6:.1f}")
        for one in indexes
    ]
    print_table(("schema", "documents", "MB"), rows, ("\t".join(row) for row in rows))


def print_stats(stats: reports.Stats, *, as_json: bool) -> None:
    """Print the counts and the settings of an index."""
    counts = stats.to_dict()
    if as_json:
        print_json(counts)
        return
    from e2graphrag_integrations.embedders.fingerprints import describe_fingerprint

    settings = counts.pop("settings")
    counts["subjects"] = ", ".join(f"{name} {n}" for name, n in stats.subjects.items()) or "-"
    languages = (f"{code} {n}" for code, n in stats.languages.items())
    counts["languages"] = ", ".join(languages) or "-"
    counts["trusted_sources"] = ", ".join(stats.trusted_sources) or "-"
    lines = (f"{name}: {value}" for name, value in counts.items())
    print_table(("count", "value"), counts.items(), lines)
    described = {name: describe_fingerprint(value) for name, value in settings.items()}
    if "embedder" in settings:
        described["embedder"] = describe_fingerprint(
            settings["embedder"], settings.get("embedder_name")
        )
    lines = (f"  {name} = {value}" for name, value in described.items())
    print_table(("setting", "value"), described.items(), lines)


def print_verification(report: reports.VerifyReport, path: str, *, as_json: bool) -> None:
    """Print the result of a check and the problems that it found."""
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
        return
    counts = ", ".join(f"{count} {unit}" for unit, count in report.checked.items())
    verdict, style = ("sound", "green") if report.ok else ("damaged", "red")
    print_styled(f"{path}: {verdict} ({counts})", style)
    for problem in report.problems:
        print_line(f"  {problem}")
