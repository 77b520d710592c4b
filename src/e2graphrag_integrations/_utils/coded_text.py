"""`CodedText`: the message of an error, with what makes it in another language."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self


class CodedText(str):
    """An English message with its code and values, from which a page makes it in its language.

    It is a string, so it is the message of any exception.

    Args:
        code: What went wrong; it stays the same when the message changes.
        template: The message, with the names of values in braces, as in `str.format`.
        values: What the message names: texts, numbers, lists of texts, or another coded text.

    >>> text = CodedText("no_list", "{path} needs a list, not {value}", path="$in", value="5")
    >>> text, text.code, text.values["path"]
    ('$in needs a list, not 5', 'no_list', '$in')
    """

    __slots__ = ("code", "values")

    code: str
    values: Mapping[str, Any]

    def __new__(cls, code: str, template: str, /, **values: Any) -> Self:
        """Return the message."""
        one = super().__new__(cls, template.format_map(values))
        one.code, one.values = code, MappingProxyType(values)
        return one

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (str(self), self.code, dict(self.values))


def _restore(text: str, code: str, values: Mapping[str, Any]) -> CodedText:
    escaped = text.replace("{", "{{").replace("}", "}}")
    return CodedText(code, escaped, **values)


def text_of(error: BaseException) -> CodedText | str:
    """Return the message of an error, with its code if it has one."""
    text = error.args[0] if error.args else None
    return text if isinstance(text, CodedText) else str(error)
