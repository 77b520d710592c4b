"""The command that serves an index as a page and a JSON API."""

from __future__ import annotations

from typing import Annotated

import typer

from e2graphrag_integrations.cli import index_files, models, options, values
from e2graphrag_integrations.cli.app import command
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.cli.output.terminal import print_line
from e2graphrag_integrations.cli.where import parse_object
from e2graphrag_integrations.errors import MissingDependencyError

TOKEN_VARIABLE = "E2GRAPHRAG_SERVE_TOKEN"  # noqa: S105 - the name of the variable


PORT = 8766
"""The default port."""


def check_server() -> None:
    """Check that the packages of the server are installed.

    Raises:
        MissingDependencyError: If they are not.
    """
    try:
        import e2graphrag_integrations.server.web  # noqa: F401 - it imports them
    except ImportError as error:
        raise MissingDependencyError(
            f"the server needs the package {error.name}: "
            "pip install 'e2graphrag-integrations[serve]'"
        ) from error


@command
def serve(
    index: options.ServedIndex,
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[int, number("Port; 0 lets the system choose.")] = PORT,
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="Environment variable that contains the token of a client with all rights "
            f"(default: {TOKEN_VARIABLE}).",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML or JSON file of clients: name, token or token_env, where, write, answer.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Further host name that clients use. Repeat it."),
    ] = None,
    read_only: Annotated[bool, flag("--read-only", "Refuse all changes of documents.")] = False,
    scope: options.Scope = None,
    vectors: options.Vectors = None,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
    concurrency: options.Concurrency = 4,
    answer_model: options.AnswerModel = None,
    answer_base_url: options.AnswerBaseURL = None,
    answer_api_key_env: options.AnswerApiKeyEnv = None,
    answer_max_tokens: options.AnswerMaxTokens = None,
    answer_prompt_tokens: options.AnswerPromptTokens = None,
    answer_timeout: options.AnswerTimeout = None,
    lock_timeout: options.LockTimeout = 30.0,
) -> None:
    """Serve an index as a page for the browser and a JSON API.

    A file that does not exist is created as an empty index, unless --read-only or --scope is given;
    add documents in the page. An address other than that of this machine needs a token. Uploaded
    documents are indexed with the --llm options, and the --answer options let a model write answers
    when somebody asks for one.

    Examples:
      e2graphrag serve novels.e2g
      e2graphrag serve novels.e2g --port 8000 --read-only
      e2graphrag serve novels.e2g --answer-model gemma3 --answer-base-url http://localhost:11434/v1
    """
    check_server()
    from e2graphrag_integrations.server.listening import HttpOptions
    from e2graphrag_integrations.server.web import Client, WebOptions, read_tokens
    from e2graphrag_integrations.server.web import serve as serve_app

    token = values.read_token(token_env, TOKEN_VARIABLE)
    clients = [] if token is None else [Client("token", token, write=True)]
    clients += [] if tokens is None else read_tokens(tokens)
    first = clients[0].token if clients else None
    http = HttpOptions(host, port, first, allow_host or ())
    where = None if scope is None else parse_object("--scope", scope)
    answers = models.make_answers(
        answer_model,
        answer_base_url,
        answer_api_key_env,
        max_tokens=answer_max_tokens,
        prompt_tokens=answer_prompt_tokens,
        seconds=answer_timeout,
    )
    web = WebOptions(clients, http.hosts, read_only, where, answers=answers)
    summarizer = models.make_summarizer(llm_model, llm_base_url, llm_api_key_env)
    is_new = index_files.is_new_file(index) and not read_only and where is None
    opening = index_files.create_index if is_new else index_files.open_index
    with (
        index_files.remove_if_failed(index, uses_llm=summarizer is not None),
        opening(
            index,
            summarizer=summarizer,
            concurrency=concurrency,
            lock_timeout=lock_timeout,
            vectors=vectors,
        ) as rag,
    ):
        if is_new:
            print_line(
                f"created {index}, a new index without documents: add them in the page", error=True
            )
        serve_app(rag, http, web, lambda url: print_line(f"serving at {url}", error=True))
