"""Who may use the server, and how much of it."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.files import unread_reason
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_int,
    check_name,
    check_seconds,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.scopes import Scope
from e2graphrag_integrations.server.listening import (
    CONNECTIONS,
    LOOPBACK,
    SECONDS,
    check_hosts,
    check_secret,
)
from e2graphrag_integrations.server.web.answering.options import AnswerOptions

_MAX_FILE = 1_000_000
"""Maximum number of bytes in a file of tokens."""

_KEYS = ("token", "token_env", "where", "write", "answer")


@dataclass(frozen=True)
class Client:
    """Somebody with a token.

    Args:
        name: Name of the client, for logs.
        token: The token, at least 16 characters.
        where: Metadata filter; the client sees only the documents that match (`scoped`). None
            shows the whole index.
        write: Whether the client may add and delete documents. A client with `where` cannot.
        answer: Whether the client may let the model of `WebOptions.answers` write answers.

    Raises:
        InvalidInputError: If an argument is invalid, or if `where` is invalid.
    """

    name: str
    token: str = field(repr=False)
    where: Mapping[str, Any] | None = None
    write: bool = False
    answer: bool = True

    def __post_init__(self) -> None:
        check_name("the name of a client", self.name)
        check_bool("write", self.write)
        check_bool("answer", self.answer)
        try:
            check_secret(self.token)
        except InvalidInputError as error:
            raise InvalidInputError(f"client {self.name!r}: {error}") from error
        if self.where is not None:
            Scope.of(self.where, None)
            if self.write:
                raise InvalidInputError(
                    f"client {self.name!r}: a client with `where` cannot write, because its "
                    "documents could be outside of its scope: remove one of both"
                )


@dataclass(frozen=True)
class Limits:
    """Limits of a server. A request beyond them is refused, and the server goes on.

    A client is a token, or an address if no token is required.

    Args:
        parallel: Number of requests that read the index at the same time; others wait.
        waiting: Maximum number of requests that run or wait (status 503).
        per_client: The same, of one client (status 429).
        per_minute: Maximum number of requests of a client per minute (status 429).
        seconds: Maximum time of a request, with its wait (status 503); five times as much for the
            cost of files.
        body_bytes: Maximum size of a request with JSON (status 413).
        body_seconds: Maximum time to receive a request, or a part of an answer (status 408).
        upload_bytes: Maximum size of an upload with all its files, and maximum number of characters
            in it (status 413).
        upload_files: Maximum number of files in an upload (status 413).
        k: Maximum number of nodes in an answer.
        token_budget: Maximum token budget of an answer.
        questions: Maximum number of questions in an evaluation.
        jobs: Maximum number of jobs that write, and of evaluations, that run or wait (status 503);
            of one client, two evaluations (status 429).
        kept_jobs: Number of finished jobs of each client whose results are kept.
        streams: Maximum number of clients that follow jobs (status 503), half of them of one client
            (status 429).
        answers: Maximum number of answers that a model writes at the same time (status 503), half
            of them for one client (status 429).
        answers_per_minute: Maximum number of answers for a client per minute (status 429).
        connections: Maximum number of connections (status 503).

    Raises:
        InvalidInputError: If a limit is not positive.
    """

    parallel: int = 4
    waiting: int = 500
    per_client: int = 150
    per_minute: int = 3_000
    seconds: float = 60.0
    body_bytes: int = 2_000_000
    body_seconds: float = SECONDS
    upload_bytes: int = 32 * 2**20
    upload_files: int = 200
    k: int = 200
    token_budget: int = 200_000
    questions: int = 2_000
    jobs: int = 8
    kept_jobs: int = 20
    streams: int = 50
    answers: int = 8
    answers_per_minute: int = 10
    connections: int = CONNECTIONS

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(one.default, float):
                check_int(one.name, value, 1, 2**40)
            elif check_seconds(one.name, value) <= 0:
                raise InvalidInputError(f"{one.name}={value} must be positive")


@dataclass(frozen=True)
class WebOptions:
    """Options of the web application.

    Args:
        clients: The clients; with none, everyone who reaches the server may use all of it.
        hosts: Accepted names in the header Host, without ports.
        read_only: Whether nobody may add or delete documents.
        where: Metadata filter; nobody sees other documents or may write. None serves everything.
        limits: The limits.
        answers: The model that writes answers when a client asks it to; None means that there is
            none.

    Raises:
        InvalidInputError: If an argument is invalid, or two clients have the same name or token.
    """

    clients: Sequence[Client] = ()
    hosts: Sequence[str] = LOOPBACK
    read_only: bool = False
    where: Mapping[str, Any] | None = None
    limits: Limits = Limits()
    answers: AnswerOptions | None = None

    def __post_init__(self) -> None:
        check_bool("read_only", self.read_only)
        check_hosts(self.hosts)
        for values in ([one.name for one in self.clients], [one.token for one in self.clients]):
            if len(set(values)) < len(values):
                raise InvalidInputError("two clients have the same name or the same token")


def read_tokens(
    path: str | os.PathLike[str], environment: Mapping[str, str] = os.environ
) -> tuple[Client, ...]:
    """Read clients from a TOML or JSON file that maps each name to its options.

    The options are `token`, or `token_env`, the name of an environment variable that contains the
    token; `where`; `write`; and `answer`. A `.json` file contains JSON, any other file TOML.

    Raises:
        InvalidInputError: If the file cannot be read or is empty, or an option is invalid. No
            message contains a token.
    """
    file = Path(path)
    try:
        if file.stat().st_size > _MAX_FILE:
            raise InvalidInputError(f"the tokens {file} have more than {_MAX_FILE:,} bytes")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"the tokens {file} cannot be read: {unread_reason(error)}"
        ) from error
    try:
        values = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError):
        # The message and the context of the parser could quote a token.
        kind = "JSON" if file.suffix.lower() == ".json" else "TOML"
        raise InvalidInputError(f"the tokens {file} are not valid {kind}") from None
    if not isinstance(values, dict) or not values:
        raise InvalidInputError(
            f'the tokens {file} must map names to options, such as [alice] with token_env = "ALICE"'
        )
    return tuple(_client(file, name, options, environment) for name, options in values.items())


def _client(file: Path, name: str, options: Any, environment: Mapping[str, str]) -> Client:
    place = f"{file}: client {name!r}"
    if not isinstance(options, dict):
        raise InvalidInputError(f"{place} must have options: {', '.join(_KEYS)}")
    unknown = [key for key in options if key not in _KEYS]
    if unknown:
        raise InvalidInputError(f"{place}: unknown option {unknown[0]!r}: use {', '.join(_KEYS)}")
    if ("token" in options) == ("token_env" in options):
        raise InvalidInputError(f"{place} must have either token or token_env")
    if "token" in options:
        token = options["token"]
    else:
        token = environment.get(str(options["token_env"]), "")
        if not token:
            raise InvalidInputError(
                f"{place}: token_env names no environment variable with a token"
            )
    rights = {key: options[key] for key in ("where", "write", "answer") if key in options}
    try:
        return Client(name, token, **rights)
    except InvalidInputError as error:
        problem = str(error).removeprefix(f"client {name!r}: ")
        raise InvalidInputError(f"{place}: {problem}") from error
