"""Invented conversations of several domains, with the document that answers the last question."""

from __future__ import annotations

from typing import NamedTuple

DOCUMENTS = {
    "quillbase cost": "Quillbase costs nine euros per user and month, or ninety euros a year.",
    "quillbase backup": "Quillbase writes a backup every night, and keeps each for thirty days.",
    "quillbase login": "To sign in to Quillbase, scan the code with a phone. It has no passwords.",
    "tandric cost": "Tandric costs nothing for five users. Larger teams pay forty euros a month.",
    "tandric backup": "Tandric copies each change to a second site. A backup is restored online.",
    "tandric login": "Tandric accepts passwords and keys. After five wrong ones, it locks you out.",
    "pool": "The swimming pool of Ostermoor opens at seven. Admission costs four crowns.",
    "library": "Residents of Ostermoor get a library card for free. Books are lent for four weeks.",
    "parking": "A parking permit of Ostermoor is valid for two years, and costs sixty crowns.",
    "waste": "Bulky waste is collected on the first Monday of a month. Register a fridge by phone.",
    "velorin dose": "Velorin is taken twice a day with food. Adults take one tablet.",
    "velorin effects": "The side effects of Velorin are dizziness and a dry mouth.",
    "velorin children": "Velorin is not given to children, nor to pregnant women.",
    "camdrine dose": "Camdrine is injected once a week by a nurse.",
    "camdrine effects": "The side effects of Camdrine are fever and a rash.",
    "camdrine children": "Camdrine is given to children from the age of six.",
    "dumplings": "The dough of plum dumplings is made of potatoes. Boil the dumplings ten minutes.",
    "freezing": "Plum dumplings freeze well. They keep for three months in the freezer.",
    "soup": "Barley soup simmers for two hours. Soak the barley overnight.",
    "ilsabet": "Queen Ilsabet ruled Marrow from 1411 to 1438, and built the harbor of Sund.",
    "ilsabet death": "Queen Ilsabet died of a fever in the abbey of Loss.",
    "battle": "The Battle of Thornfen was won by Duke Aldric in 1425.",
    "aldric death": "Duke Aldric died on a hunt, killed by a boar.",
    "comet": "The comet Arvel returns every 81 years. Its tail is green.",
    "moon": "The moon Tessk is covered with ice. Beneath it lies an ocean.",
}


class Dialog(NamedTuple):
    """A conversation: the turns, alternately of the user and the assistant, and a question."""

    question: str
    document: str
    turns: tuple[str, ...]


BACKUPS = ("Does Quillbase make backups?", "Yes. It writes a backup every night.")
COST = ("How much does Quillbase cost?", "Nine euros per user and month.")
FOOD = ("Is Velorin taken with food?", "Yes, twice a day with food.")
INJECTED = ("How often is Camdrine injected?", "Once a week, by a nurse.")
DIED = ("How did Queen Ilsabet die?", "She died of a fever in the abbey of Loss.")
WON = ("Who won the Battle of Thornfen?", "Duke Aldric.")
LOGIN = ("How do I sign in to Tandric?", "With a password or a key.")
DOUGH = ("What is the dough of plum dumplings made of?", "Of potatoes.")
PERMIT = ("How much is a parking permit of Ostermoor?", "Sixty crowns.")
LENT = ("Who gets a library card?", "Residents of Ostermoor get a library card for free.")
OTHER = (
    "Does Quillbase make backups?",
    "Yes. Unlike Tandric, which copies each change, Quillbase writes a backup every night.",
)

FOLLOW_UPS = (
    Dialog("Does it keep a backup?", "quillbase backup", COST),
    Dialog("How much does it cost?", "quillbase cost", OTHER),
    Dialog("Any side effects?", "velorin effects", FOOD),
    Dialog("What are the side effects?", "camdrine effects", INJECTED),
    Dialog("What about children?", "camdrine children", INJECTED),
    Dialog("How long do I boil them?", "dumplings", DOUGH),
    Dialog("Do they freeze well?", "freezing", DOUGH),
    Dialog("How did he die?", "aldric death", WON),
    Dialog("How long is it valid?", "parking", (*PERMIT, "Thanks!", "You are welcome.")),
    Dialog("I meant Camdrine.", "camdrine effects", ("Does Velorin have side effects?", "Yes.")),
)
"""Questions with pronouns or gaps."""

CHANGES = (
    Dialog("What color is the tail of this comet?", "comet", (*FOOD, *DIED)),
    Dialog("When does the swimming pool open?", "pool", FOOD),
    Dialog("For how long are books lent?", "library", BACKUPS),
    Dialog("When is bulky waste collected?", "waste", LOGIN),
    Dialog("How long does the soup simmer?", "soup", DIED),
    Dialog("Is there an ocean on the moon?", "moon", PERMIT),
    Dialog("Do the dumplings keep in the freezer?", "freezing", WON),
    Dialog("And what color is the tail of the comet?", "comet", (*COST, *BACKUPS)),
    Dialog("Can I register the fridge by phone?", "waste", (*COST, *LOGIN)),
    Dialog("How often does this comet return?", "comet", (*FOOD, *INJECTED)),
)
"""Questions on another topic than the conversation before them."""

COMPLETE = (
    Dialog("What does admission to the pool cost?", "pool", (*COST, *PERMIT)),
    Dialog("How is a backup restored in Tandric?", "tandric backup", BACKUPS),
    Dialog("How did Duke Aldric die?", "aldric death", DIED),
    Dialog("How often is Camdrine injected?", "camdrine dose", FOOD),
    Dialog("What does a parking permit cost residents?", "parking", LENT),
    Dialog("How long is a backup kept by Quillbase?", "quillbase backup", LOGIN),
    Dialog("How much barley do I soak overnight?", "soup", (*COST, *DOUGH)),
)
"""Complete questions that share a word with the conversation before them."""

MISSED = (
    Dialog("And how much is it?", "tandric cost", LOGIN),
    Dialog("Can children take it?", "velorin children", FOOD),
    Dialog("What did she build?", "ilsabet", DIED),
)
"""Questions whose document is not the first hit yet."""
