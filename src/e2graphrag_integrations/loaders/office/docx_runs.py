"""Read the runs of a paragraph in a DOCX file, with symbols, breaks and the values of forms."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from e2graphrag_integrations.loaders.archives import attribute, local_name
from e2graphrag_integrations.loaders.office.equations import RunsWithEquations

_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
"""Elements that stand for a character."""

_PROPERTIES = frozenset({"rStyle", "vanish", "position", "vertAlign"})
_FORM = frozenset({"listEntry", "result", "default", "checked", "checkBox", "ddList"})
NO = frozenset({"0", "false", "off"})
"""Values of properties that a run does not have."""

_NUMBER = re.compile(r"\d{1,4}")

_MIN_RAISE = 4
"""Number of half points from which a run counts as raised; converters shift letters by less."""

_PRIVATE = range(0xF000, 0xF100)
"""Where Word puts the characters of fonts of symbols."""


def _table(text: str) -> dict[int, str]:
    return {int(pair[:2], 16): pair[2:] for pair in text.split()}


_SYMBOLS = {
    "symbol": {
        **dict(enumerate("ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", ord("A"))),
        **dict(enumerate("αβχδεφγηιϕκλμνοπθρστυϖωξψζ", ord("a"))),
        **dict(enumerate("0123456789", ord("0"))),
        **_table(
            "22∀ 24∃ 25% 28( 29) 2A∗ 2B+ 2C, 2D− 2E. 2F/ 3A: 3B; 3C< 3D= 3E> 5B[ 5D] 7B{ 7C| "
            "7D} 7E∼ A0€ A2′ A3≤ A4⁄ A5∞ AB↔ AC← AD↑ AE→ AF↓ B0° B1± B2″ B3≥ B4× B5∝ B6∂ B7• B8÷ "
            "B9≠ BA≡ BB≈ BC… C5⊕ C6∅ C7∩ C8∪ CD⊆ CE∈ CF∉ D1∇ D2® D3© D4™ D5∏ D6√ D7⋅ D8¬ D9∧ DA∨ "
            "DB⇔ DC⇐ DE⇒ E2® E3© E4™ E5∑ F2∫"
        ),
    },
    "wingdings": _table(
        "28☎ 2A✉ 4A☺ 4C☹ 6C● 6E■ 6F☐ 71☐ 72☐ 76❖ 9F• A7▪ A8☐ D8➢ DF← E0→ E1↑ E2↓ E8➔ F0⇨ FB✗ "
        "FC✓ FD☒ FE☑"
    ),
    "wingdings 2": _table("4F✗ 50✓ 51☒ 52☑ 53☒ 54☒ A3☐ 2A☐"),
}
"""The usual characters of fonts of symbols, by their code in the font."""


class DocxRuns(RunsWithEquations):
    """The texts of the runs of a paragraph.

    Args:
        raised: The styles of runs that are superscripts.
        hidden: Those of runs that are not shown.
    """

    def __init__(self, raised: Collection[str] = (), hidden: Collection[str] = ()) -> None:
        super().__init__()
        self._raised, self._hidden = raised, hidden
        self._form: dict[str, str] = {}  # what the open field of a form says
        self._entries: list[str] = []
        self._choice = ("", 0)  # the chosen entry, and the number of texts before it

    def start(self, name: str, element: Any) -> None:
        """Begin an element."""
        if name == "r":
            self.start_run()
        elif name in _PROPERTIES:
            if _is_of_run(element):
                self._set(name, attribute(element, "val"))
        elif name == "ffData":
            self._form, self._entries = {}, []
        elif name == "listEntry":
            self._entries.append(attribute(element, "val") or "")
        elif name in _FORM:
            self._form[name] = attribute(element, "val") or ""
        super().start(name, element)

    def _set(self, name: str, value: str | None) -> None:
        """Set a property of the open run."""
        if name == "vanish":
            self.is_hidden = value not in NO
        elif name == "vertAlign":
            self.is_raised = value == "superscript"
        elif name == "position":
            is_high = _NUMBER.fullmatch(value or "") and int(value or "") >= _MIN_RAISE
            self.is_raised = self.is_raised or bool(is_high)
        else:
            self.is_raised = self.is_raised or value in self._raised
            self.is_hidden = self.is_hidden or value in self._hidden

    def end(self, name: str, element: Any) -> None:
        """End an element."""
        if name == "t":
            self.add(element.text or "")
        elif name in _CHARACTERS and local_name(element.getparent()) == "r":
            if attribute(element, "type") in {"page", "column"}:
                self.add_break()
            else:
                self.add(_CHARACTERS[name])
        elif name == "sym":
            self.add(_symbol(attribute(element, "font") or "", attribute(element, "char") or ""))
        elif name == "ffData":
            self._end_form()
        elif name == "fldChar" and attribute(element, "fldCharType") == "end":
            chosen, count = self._choice
            if len(self.texts) == count:  # some programs repeat the entry as a text
                self.add(chosen)
            self._choice = ("", 0)
        super().end(name, element)

    def _end_form(self) -> None:
        if "checkBox" in self._form:
            is_checked = self._form.get("checked", self._form.get("default", "0")) not in NO
            self.add("☒" if is_checked else "☐")
        elif "ddList" in self._form:
            number = self._form.get("result") or self._form.get("default") or "0"
            at = int(number) if _NUMBER.fullmatch(number) else 0
            self._choice = ("".join(self._entries[at : at + 1]), len(self.texts))


def _is_of_run(element: Any) -> bool:
    """Return whether a property is that of a run, rather than of the mark of a paragraph."""
    properties = element.getparent()
    return properties is not None and local_name(properties.getparent()) == "r"


def _symbol(font: str, char: str) -> str:
    """Return the letter for a character of a font of symbols; empty if it is not a usual one."""
    code = int(char, 16) if re.fullmatch("[0-9A-Fa-f]{1,4}", char) else 0
    table = _SYMBOLS.get(font.lower())
    if table is not None:
        return table.get(code - _PRIVATE.start if code in _PRIVATE else code, "")
    return chr(code) if code and chr(code).isprintable() else ""
