"""Types of arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

_LLM_PANEL = "Language model"

IndexFile = Annotated[str, typer.Argument(metavar="INDEX", help="Index file.")]

NewIndexFile = Annotated[str, typer.Option("--out", metavar="INDEX", help="Index file to create.")]

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Files and folders (txt, md, pdf, html, docx), or - for standard input.",
    ),
]

Embedder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name or path of a sentence-transformers model, or 'hashing' for tests "
        "(default: all-MiniLM-L6-v2).",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Profile = Annotated[bool, typer.Option("--profile", help="Print the time of each stage.")]

EstimateOnly = Annotated[
    bool, typer.Option("--estimate", help="Print the number of LLM calls and tokens, then stop.")
]

LLMModel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Model that writes the summaries. Without it, summaries are extracted sentences.",
        rich_help_panel=_LLM_PANEL,
    ),
]

LLMBaseURL = Annotated[
    str | None,
    typer.Option(
        "--llm-base-url",
        metavar="URL",
        help="Address of an OpenAI-compatible server.",
        rich_help_panel=_LLM_PANEL,
    ),
]

LLMApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="VARIABLE",
        help="Environment variable that contains the API key (default: OPENAI_API_KEY).",
        rich_help_panel=_LLM_PANEL,
    ),
]

Concurrency = Annotated[
    int,
    typer.Option(metavar="N", help="Number of parallel LLM calls.", rich_help_panel=_LLM_PANEL),
]
