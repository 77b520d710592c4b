"""Earlier turns of a conversation, and what a question takes over from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError

Role = Literal["user", "assistant"]

MAX_TURNS = 6
"""Number of turns that are read, the last ones; earlier turns do not affect the result."""

MAX_TURN_LENGTH = 4_000
"""Number of characters of a turn that are read; the rest does not affect the result."""

_ROLES: Mapping[str, Role | None] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
    "system": None,
    "developer": None,
    "tool": None,
    "function": None,
}
"""Names of roles in chat APIs, LlamaIndex and LangChain; None for turns that are not read."""

_ALLOWED = "user, assistant, system, developer, tool or function"

_CHUNK_SUFFIX = "messagechunk"
"""LangChain's type of a streamed message is, for example, "AIMessageChunk"."""

_MAX_SHOWN = 5
"""Maximum number of names that `describe` lists."""


class Message(Protocol):
    """A message of a framework: LlamaIndex's has a `role`, LangChain's a `type`."""

    @property
    def content(self) -> Any:
        """The text, or a list of its parts."""


TurnLike = str | Mapping[str, Any] | tuple[str, str] | Message
"""A text of the user; a mapping with `role` and `content`; a pair of role and text; a message."""

History = Sequence[TurnLike]
"""The earlier turns of a conversation, oldest first."""


class Turn(NamedTuple):
    """One turn of a conversation.

    Attributes:
        role: Who speaks: `user` or `assistant`.
        text: What is said, up to 4,000 characters.
    """

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class CarriedTurn:
    """A turn from which a question takes something over.

    Attributes:
        turns_back: Number of turns between it and the question, plus 1.
        role: Who speaks.
        weight: Weight of the turn in the query, in (0, 1]. Words and names get a fraction of it.
        relatedness: How close the topics of the turn and the question are, in [0, 1].
    """

    turns_back: int
    role: Role
    weight: float
    relatedness: float


@dataclass(frozen=True, slots=True)
class Antecedent:
    """What a pronoun of the question means.

    Attributes:
        words: The pronoun.
        name: The name or date that it means.
        turns_back: Number of turns between the one that names it and the question, plus 1.
        role: Who names it.
        value: How likely it is meant, in (0, 1].
    """

    words: str
    name: str
    turns_back: int
    role: Role
    value: float


@dataclass(frozen=True)
class Carried:
    """What a question takes over from earlier turns, and why.

    Attributes:
        incompleteness: How much the question needs the earlier turns, in [0, 1].
        reason: Why, in words.
        turns: The turns from which something was taken over, the latest first.
        names: Names taken over, with their weights in (0, 1].
        terms: BM25 terms taken over, with their weights in (0, 1]. The weight of the question's own
            terms is 1.
        context: The turns of the user among `turns`, oldest first.
        antecedents: What the pronouns of the question mean. Their names and words count as those of
            the question.
    """

    incompleteness: float = 0.0
    reason: str = ""
    turns: tuple[CarriedTurn, ...] = ()
    names: Mapping[str, float] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    context: tuple[str, ...] = ()
    antecedents: tuple[Antecedent, ...] = ()

    def describe(self) -> str:
        """Return what was carried over, and why, as text."""
        why = f"incompleteness {self.incompleteness:.2f}, because {self.reason}"
        if not self.turns:
            return f"nothing carried over; {why}"
        turns = ", ".join(
            f"{one.role} {one.turns_back} back {one.weight:.2f}" for one in self.turns
        )
        shown = list(self.names.items())[:_MAX_SHOWN]
        names = ", ".join(f"{name} {weight:.2f}" for name, weight in shown) or "none"
        more = len(self.names) - len(shown)
        more_names = f", {more} more" if more else ""
        for one in self.antecedents:
            why += f"; {one.words!r} means {one.name} ({one.role} {one.turns_back} back)"
        return f"{why}; turns: {turns}; names: {names}{more_names}; words: {len(self.terms)}"


def as_turns(history: History | None) -> tuple[Turn, ...]:
    """Return the last turns of a history that contain text, at most `MAX_TURNS`, oldest first.

    All turns are checked, also those that are not read. Turns of the system and of tools are
    skipped.

    Raises:
        InvalidInputError: If the history is not a sequence of turns, or a role is unknown. The
            message names the turn.
    """
    if history is None:
        return ()
    if not isinstance(history, Sequence) or isinstance(history, str | bytes):
        raise InvalidInputError(
            f"history={short_repr(history)} must be a list of turns, oldest first, such as "
            '[("user", "Who is Anna?"), ("assistant", "A sailor.")]'
        )
    turns = []
    for number, given in enumerate(history):
        role, content = _role_and_content(given, f"history[{number}]")
        if role is not None:
            turns.append((role, content, number))
    read: list[Turn] = []
    for role, content, number in reversed(turns):
        text = _text(content, f"history[{number}]")
        if text and len(read) < MAX_TURNS:
            read.append(Turn(role, text))
    return tuple(reversed(read))


def _role_and_content(given: Any, where: str) -> tuple[Role | None, Any]:
    if isinstance(given, str):
        return "user", given
    if isinstance(given, Mapping):
        if given.get("tool_calls"):
            given = {"content": None, **given}  # which model_dump(exclude_none=True) leaves out
        missing = [key for key in ("role", "content") if key not in given]
        if missing:
            raise InvalidInputError(
                f"{where} has no key {missing[0]!r}: a mapping needs 'role' and 'content'"
            )
        return _checked_role(given["role"], where), given["content"]
    if isinstance(given, tuple | list) and len(given) == 2:  # noqa: PLR2004 - a pair
        return _checked_role(given[0], where), given[1]
    role = getattr(given, "role", None) or getattr(given, "type", None)
    if role is None or isinstance(given, type) or not hasattr(given, "content"):
        raise InvalidInputError(
            f"{where} is {short_repr(given)}: a turn is a (role, text) pair, a mapping with 'role' "
            "and 'content', a text of the user, or a message of LlamaIndex or LangChain"
        )
    return _checked_role(role, where), given.content


def _checked_role(role: Any, where: str) -> Role | None:
    name = getattr(role, "value", role)  # LlamaIndex's roles are members of an enum
    key = name.lower().removesuffix(_CHUNK_SUFFIX) if isinstance(name, str) else None
    if key is None or key not in _ROLES:
        raise InvalidInputError(f"{where} has the unknown role {short_repr(name)}: use {_ALLOWED}")
    return _ROLES[key]


def _text(content: Any, where: str) -> str:
    """Return the beginning of a turn's text, which may be a list of parts, without outer spaces."""
    if content is None:  # a message that only calls tools
        return ""
    if isinstance(content, str):
        text = content
    elif _is_parts(content):
        texts = (part if isinstance(part, str) else part.get("text") for part in content)
        text = "\n".join(one for one in texts if isinstance(one, str))
    else:
        raise InvalidInputError(
            f"the text of {where} must be a string or a list of parts, not {short_repr(content)}"
        )
    # Language models may produce lone surrogates, which tokenizers reject.
    return text[:MAX_TURN_LENGTH].strip().encode("utf-8", "replace").decode()


def _is_parts(content: Any) -> TypeGuard[list[str | Mapping[str, Any]]]:
    return isinstance(content, list) and all(isinstance(one, str | Mapping) for one in content)
