"""Common first names and titles with their gender: a weak hint at whom "he" or "she" means."""

from __future__ import annotations

from typing import Literal

_FEMALE = frozenset(
    "ada adele agatha agnes alice amelia amy ana andrea angela anita anja ann anna anne annie"
    " astrid barbara beatrice bertha betty birgit brenda brigitte camila carla carmen carol"
    " caroline catherine cecilia charlotte chiara christina christine clara clare claudia cynthia"
    " daisy deborah denise diana donna dora doris dorothy edith eleanor elena elisa elisabeth"
    " elizabeth ella ellen elsa emilia emily emma erika esther eva eve evelyn fatima flora"
    " florence frances frida gabriela gerda gertrude gina gloria grace greta hannah harriet heidi"
    " helen helena helga henrietta hilda ida ines ingrid irene iris irma isabel isabella ivy jane"
    " janet jean jennifer jenny jessica joan johanna josephine joyce judith judy julia juliet"
    " karen karin katarina kate katharina katherine kathleen katja kirsten lara laura leila lena"
    " lily linda lisa lotte louisa louise lucia lucy lydia mabel madeleine magda maja margaret"
    " margarita maria marie marta martha mary matilda maud maya mercedes mildred mira miriam molly"
    " monica nadia nancy natalia natasha nina nora olga olivia paula pauline petra phyllis rachel"
    " rebecca regina rita rosa rosalind rose roxana ruth sally sandra sara sarah selma sharon"
    " sigrid silvia simone sofia sonia sophia sophie stella susan susanna svetlana sylvia teresa"
    " thea theresa tilda ursula vera veronica victoria viola violet virginia vivian wilma yvonne"
    " zoe".split()
)
_MALE = frozenset(
    "aaron abraham adam adolf ahmed alan albert alberto alexander alfred ali allan andreas andrew"
    " angus anthony anton antonio arnold arthur august axel ben benjamin bernard bill bjorn bob"
    " boris bram brian bruce bruno carl carlos cedric charles christopher claude clemens cyril"
    " daniel david dennis diego dmitri donald douglas edgar edmund eduard edward edwin emil enrico"
    " eric erik ernest ernst erwin eugene evan felix ferdinand finn francesco francis frank franz"
    " fred frederick friedrich fritz gabriel gary geoffrey georg george gerald gerhard gilbert"
    " giovanni giuseppe gordon graham gregory gunnar gustav guy hans harald harold harry heinrich"
    " henri henrik henry herbert hermann howard hubert hugh hugo igor isaac ivan jack jacob jakob"
    " james jan jason jeffrey jerome jim joe joel johan johann johannes john jonas jonathan jorge"
    " jose josef joseph juan julius karl keith kenneth kevin klaus konrad kurt larry lars laurence"
    " lawrence leo leon leonard leopold lewis louis ludwig luis luke magnus manuel marco marcus"
    " mario mark martin matthew maurice max michael miguel mikhail milan mohammed morris nathan"
    " neil nicholas niels nikolai nils noah norman olaf oliver orson oscar oskar otto pablo"
    " patrick paul pavel pedro peter philip pierre piotr ralph raymond richard robert roger roland"
    " roman ronald rudolf rupert samuel sebastian sergei sidney sigmund simon stanley stefan"
    " stephen steven sven theodor theodore thomas tim timothy tobias tom victor viktor vincent"
    " vladimir walter werner wilhelm william wolfgang".split()
)

_FEMALE_WORDS = frozenset(
    "mrs ms miss madame lady queen princess duchess countess empress baroness sister mother wife"
    " daughter aunt grandmother niece actress heroine dame".split()
)
_MALE_WORDS = frozenset(
    "mr sir lord king prince duke count emperor baron brother father husband son uncle grandfather"
    " nephew actor hero".split()
)
_TITLES = _FEMALE_WORDS | _MALE_WORDS | frozenset("dr prof professor captain president".split())


def is_first_name(word: str) -> bool:
    """Return whether a lowercase word is a common first name."""
    return word in _FEMALE or word in _MALE


def is_title(word: str) -> bool:
    """Return whether a lowercase word before a name says that it is a person's."""
    return word in _TITLES


def gender_of(words: str) -> Literal["female", "male", ""]:
    """Return the gender that a lowercase first name or title suggests, or ""."""
    if words in _FEMALE or words in _FEMALE_WORDS:
        return "female"
    return "male" if words in _MALE or words in _MALE_WORDS else ""
