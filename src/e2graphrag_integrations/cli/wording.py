"""Say what messages advise in the words of the command line.

The messages of the package name the parameters and methods of Python. `on_command_line` puts the
option or the command that does the same in their place. Other names stay: they are those of other
libraries, or of parameters that the command line does not have. Texts in quotes are the user's.
"""

from __future__ import annotations

import re

_SAME_NAMES = (
    "address alias as_of boost_field boost_scale chunk_overlap chunk_size concurrency embedder "
    "encoding engine expand forever group_size language lease level llm_limit lock_timeout "
    "max_llm_calls max_mb min_relevance min_weight mode on_duplicate paths prefix replace scope "
    "seed separate stop strategy token_budget top undo vectors where"
).split()
"""Parameters whose options have the same names."""

_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _SAME_NAMES} | {
    "boost_now": "--boost-now",
    "chunking": "--cut",
    "date_field": "--boost-date-field",
    "extractor": "--spacy-model",
    "grouping": "--cut",
    "half_life_days": "--boost-half-life-days",
    "k": "-k",
    "now": "--boost-now",
    "summarizer": "--llm-model",
    "types": "--type",
}
"""Options by the names of parameters in Python."""

_COMMANDS = {
    "add": "index",
    "communities": "entities communities",
    "compact": "indexes compact",
    "copy_index": "indexes copy",
    "create_shards": "indexes create-shards",
    "delete": "documents delete",
    "edits": "entities edit",
    "entities": "entities list",
    "entity": "entities show",
    "export_graph": "export graph",
    "export_to": "export folder",
    "import_from": "indexes import",
    "propose_homonyms": "entities homonyms",
    "reembed": "indexes reembed",
    "reindex": "entities reindex",
    "resume": "documents resume",
    "retrieve": "query",
    "set_tags": "documents tag",
    "stats": "indexes stats",
    "status": "documents list",
    "update": "documents update",
    "update_vectors": "export vectors",
    "verify": "indexes verify",
    "work": "documents work",
}
"""Commands by the names of methods in Python."""

_OTHERWISE = (
    (re.compile(r", or pass a larger LoaderLimits\([^)]*\)+ if you trust (?:it|the file)"), ""),
    (re.compile(r": pass a larger LoaderLimits\([^)]*\)+ if you trust the file"), ""),
    (re.compile(r", or set the scale with strategy=HybridStrategy\(.*?\)\);.*"), ""),
    (
        re.compile(
            r"call build\(\) of LangChain's or LlamaIndex's index, or resume\(\) of E2GraphRAG, or "
        ),
        "",
    ),
    (re.compile(r"\b(?:settings|models|writes)=\w+\((\w+=)\.\.\.\)"), r"\1"),
    (re.compile(r"\bmodels=Models\((\w+=\{[^}]*\})\)"), r"\1"),
    (re.compile(r'extractor=\{"(\w+)": (?:"([^"]+)"|(\.\.\.))\}'), r"--spacy-model \1=\2\3"),
    (re.compile(r"^where=(?=.*\ba scope\b)"), "scope="),
    (re.compile(r", or add\(\) the documents again"), ", or index the documents again"),
    (re.compile(r", or pass connect_timeout="), ""),
    (
        re.compile(r"open the shards one by one with E2GraphRAG\.open"),
        "run the command on each shard, which `e2graphrag indexes list-shards` names",
    ),
    (re.compile(r"date_field, recency_weight and now\b"), "date_field and boost_now"),
    (re.compile(r"pass api_key, or set"), "set"),
    (re.compile(r"(?:call )?reindex\(\) or run (?=`e2graphrag entities reindex)"), "run "),
)
"""What the command line says in another way, or cannot do; replaced first."""

_ADVICE = re.compile(
    r"""
    (?P<quoted> (?<!\w)(?:'[^'\n]*'|"[^"\n]*"|`[^`\n]*`) )
    | (?P<verb> (?:\b(?:call|run)|,\ and)\ )?
      (?<![\w./?&-])(?P<method> [a-z_]+)\((?:(?P<parameter> [a-z_]+)=\w*)?\)
    | (?<![\w./?&-])(?P<name> [a-z_]+)=(?P<value> True\b | (?=[\w'"({\[.-]) )?
    | (?<![\w./?&-])(?P<word> (?<=omit\ )[a-z_]+ | [a-z]+(?:_[a-z]+)+)\b(?![\w/=(]|\.\w)
    """,
    re.VERBOSE,
)


def on_command_line(message: str) -> str:
    """Return a message with options and commands in place of parameters and methods."""
    for python, words in _OTHERWISE:
        message = python.sub(words, message)
    return _ADVICE.sub(_in_other_words, message)


def _in_other_words(match: re.Match[str]) -> str:
    if match["name"] in _OPTIONS:
        return _OPTIONS[match["name"]] + (" " if match["value"] == "" else "")
    if match["word"] in _OPTIONS:
        return _OPTIONS[match["word"]]
    method = match["method"] or match["word"]
    if method not in _COMMANDS:
        return match[0]
    option = _OPTIONS.get(match["parameter"] or "")
    command = f"`e2graphrag {_COMMANDS[method]}{f' {option}' if option else ''}`"
    verb = match["verb"] or ""
    return f"{verb.replace('call', 'run')}{'run ' if verb == ', and ' else ''}{command}"
