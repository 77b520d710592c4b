"""Tags: a closed set of topics, given by the user, that are assigned to chunks.

`TagSet` holds the tags with their vectors, as an index file stores them. `snapshot/tags.py` assigns
them.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.arrays import exclusive_sums
from e2graphrag_integrations._utils.validation import check_name, check_text, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import FloatArray

MAX_TAGS = 500
"""Maximum number of tags in a set."""

MAX_EXAMPLES = 50
"""Maximum number of examples of a tag."""

Tags = Iterable["Tag | str | Mapping[str, Any]"]
"""Tags as users give them: names, `Tag` objects, or mappings with the fields of `Tag`."""

_MAX_NAME = 100
"""Maximum length of a name, in characters."""

_MAX_TEXT = 1_000
"""Maximum length of a description or an example, in characters: a model reads it as one window."""

_BACKGROUND = (
    "The text has several parts.",
    "It was said that this would happen later.",
    "There are many of them, and some are different.",
    "He went there and came back in the evening.",
    "The first one is larger than the second one.",
    "They had already been asked about it.",
    "An example of this is shown below.",
    "The name was changed a long time ago.",
)
"""Sentences without a topic. Their cosine to the tags is what the embedding model
returns for unrelated texts, which differs widely between models."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A topic that chunks can have.

    Attributes:
        name: The name, at most 100 characters, such as `billing`.
        description: The topic in a sentence, at most 1,000 characters; improves the assignment.
        examples: Up to 50 sentences about the topic, at most 1,000 characters each; with them,
            more of the right chunks get the tag.

    Raises:
        InvalidInputError: If a value is invalid.
    """

    name: str
    description: str = ""
    examples: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.examples, str) or not isinstance(self.examples, Iterable):
            raise InvalidInputError(
                f"tag {short_repr(self.name)}: examples={short_repr(self.examples)} must be a list "
                "of strings"
            )
        object.__setattr__(self, "examples", tuple(self.examples))
        try:
            name = _tag_name(self.name)
            check_text(f"tag {name!r}: description", self.description)
            for example in self.examples:
                check_name(f"tag {name!r}: an example", example)
        except InvalidInputError as error:
            raise InvalidInputError(str(error)) from error
        object.__setattr__(self, "name", name)
        if len(name) > _MAX_NAME:
            raise InvalidInputError(
                f"tag {short_repr(name)}: the name exceeds {_MAX_NAME} characters"
            )
        if len(self.examples) > MAX_EXAMPLES:
            raise InvalidInputError(
                f"tag {name!r} has {len(self.examples)} examples, but at most {MAX_EXAMPLES} are "
                "allowed: keep the most typical ones"
            )
        if any(len(text) > _MAX_TEXT for text in (self.description, *self.examples)):
            raise InvalidInputError(
                f"tag {name!r}: a description or an example exceeds {_MAX_TEXT:,} characters: "
                "use sentences"
            )

    @property
    def texts(self) -> list[str]:
        """The texts that represent the tag."""
        return [text for text in (self.name, self.description, *self.examples) if text.strip()]


@dataclass(frozen=True, eq=False)
class TagSet:
    """The tags of an index with their vectors.

    Attributes:
        tags: The tags, in the user's order.
        embedder: Fingerprint of the embedder that made the vectors.
        vectors: One unit vector per tag: the normalized mean of the vectors of its texts.
        background: Cosine between a tag and an unrelated text, averaged over all tags.
        is_listed: Whether an error message may list the names.
    """

    tags: tuple[Tag, ...] = ()
    embedder: str = ""
    vectors: FloatArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    background: float = 0.0
    is_listed: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tags."""
        return tuple(tag.name for tag in self.tags)

    def rows(self, names: Iterable[str]) -> list[int]:
        """Return the places of tags, given their names.

        Raises:
            InvalidInputError: If a name is unknown.
        """
        places = {name: row for row, name in enumerate(self.names)}
        rows = []
        for given in names:
            name = unicodedata.normalize("NFC", given) if isinstance(given, str) else given
            if name not in places:
                known = ", ".join(map(repr, self.names[:20]))
                tags = f"the tags of the index are {known}" if known else "call set_tags() first"
                hint = f": {tags}" if self.is_listed else ""
                raise InvalidInputError(f"unknown tag {short_repr(name)}{hint}")
            rows.append(places[name])
        return rows

    def to_json(self) -> str:
        """Return the set as text, or an empty string for an empty set."""
        if not self.tags:
            return ""
        vectors = base64.b64encode(self.vectors.astype("<f4").tobytes()).decode()
        values = {
            "tags": [asdict(tag) for tag in self.tags],
            "embedder": self.embedder,
            "vectors": vectors,
            "background": self.background,
        }
        return json.dumps(values, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TagSet:
        """Return the set; the inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError: If the text is invalid.
            InvalidInputError: If a tag is invalid.
        """
        if not text:
            return cls()
        values = json.loads(text)
        tags = as_tags(values["tags"])
        flat = np.frombuffer(base64.b64decode(values["vectors"], validate=True), dtype="<f4")
        vectors = flat.reshape(len(tags), -1).astype(np.float32)
        background = float(values["background"])
        norms = np.linalg.norm(vectors, axis=1)
        if not (np.allclose(norms, 1, atol=0.01) and -1 <= background <= 1):
            raise ValueError("the vectors of the tags are no unit vectors")
        return cls(tags, str(values["embedder"]), vectors, background)


def as_tags(given: Any) -> tuple[Tag, ...]:
    """Return tags from names, `Tag` objects or mappings with the fields of `Tag`.

    Raises:
        InvalidInputError: If the set is empty or has more than 500 tags, a name occurs twice, or an
            item is invalid. Upper and lower case do not distinguish names.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(
            f"tags={short_repr(given)} must be a list of names and of Tag(name, description, "
            "examples)"
        )
    tags = []
    for number, item in enumerate(given):
        if number >= MAX_TAGS:
            raise InvalidInputError(f"more than {MAX_TAGS} tags: use fewer, broader ones")
        tags.append(_as_tag(item, number))
    if not tags:
        raise InvalidInputError(
            "tags is empty: name at least one tag, or pass None to remove the tag set"
        )
    seen: dict[str, str] = {}
    for tag in tags:
        key = unicodedata.normalize("NFKC", tag.name).casefold()
        other = seen.get(key)
        if other is not None:
            raise InvalidInputError(
                f"tags contains {other!r} and {tag.name!r}: give each tag one name"
            )
        seen[key] = tag.name
    return tuple(tags)


def _tag_name(name: object) -> str:
    """Return a name with single spaces, in which different encodings of a letter are equal."""
    words = check_name("the name of a tag", name).split()
    return unicodedata.normalize("NFC", " ".join(words))


def _as_tag(item: Any, number: int) -> Tag:
    if isinstance(item, Tag):
        return item
    if isinstance(item, str):
        return Tag(item)
    if not isinstance(item, Mapping):
        raise InvalidInputError(
            f"tags[{number}]={short_repr(item)} must be a name, a Tag or a mapping with the keys "
            "name, description and examples"
        )
    unknown = [key for key in item if key not in ("name", "description", "examples")]
    if unknown or "name" not in item:
        problem = f"the unknown key {short_repr(unknown[0])}" if unknown else "no key 'name'"
        raise InvalidInputError(f"tags[{number}] has {problem}: use name, description and examples")
    return Tag(**item)


def embed_tags(
    tags: Sequence[Tag], embedder: str, embed: Callable[[Sequence[str]], FloatArray]
) -> TagSet:
    """Return a set with the vectors of its tags.

    Args:
        tags: The tags.
        embedder: Fingerprint of the embedder.
        embed: Returns one unit vector per text.
    """
    texts = [text for tag in tags for text in tag.texts]
    distinct = list(dict.fromkeys([*texts, *_BACKGROUND]))
    rows = {text: row for row, text in enumerate(distinct)}
    embedded = embed(distinct)
    bounds = exclusive_sums(np.asarray([len(tag.texts) for tag in tags]))
    of_texts = embedded[[rows[text] for text in texts]]
    means = np.add.reduceat(of_texts, bounds[:-1], axis=0)
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    # Vectors that cancel out have no mean; the name represents the tag then.
    means = np.where(norms > 0, means / np.maximum(norms, 1e-12), of_texts[bounds[:-1]])
    background = embedded[[rows[text] for text in _BACKGROUND]] @ means.T
    vectors: FloatArray = means.astype(np.float32)
    return TagSet(tuple(tags), embedder, vectors, round(float(background.mean()), 6))
