"""CHECKs that a text lies between two others, as patterns that hold under any usual collation."""

from __future__ import annotations

import string
from collections.abc import Iterable

from privbench.encoding.checks import Limits

#: Alphabets whose letters stand in the same order in every collation.
_ALPHABETS = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
#: Longest bound that is understood, and letters that a longer text may have past it.
_MOST, _MORE = 16, 6


def span_patterns(limits: Iterable[Limits]) -> tuple[str, str, str] | None:
    """Regular expressions of the texts between the bounds of some CHECKs; None if not understood.

    Bounds are understood where there are two, and each letter of one has the alphabet of the
    other's at its place. What lies beyond a single bound follows the collation.

    Returns:
        What texts may stay, what new ones are made from, and what more are made from where these
        are too few.

    >>> span_patterns([Limits(low="A", high="F")])
    ('^(?:[A-F]|[B-E].*|A.+|A|F)$', '^[A-F]$', '^[A-E][A-Z]{1,6}$')
    >>> span_patterns([Limits(low="10"), Limits(high="59")])[1]
    '^[1-5][0-9]$'
    """
    found = list(limits)
    low = max((item.low for item in found if item.low is not None), default=None)
    high = min((item.high for item in found if item.high is not None), default=None)
    if low is None or high is None or any(item.values is not None for item in found):
        return None
    sets = [_alphabet(letter) for letter in low]
    alike = len(low) == len(high) and [_alphabet(letter) for letter in high] == sets
    if not all(sets) or not alike or len(low) > _MOST or not low < high:
        return None
    open_ = any(item.low_open or item.high_open for item in found)
    return _patterns(low, high, sets, open_)


def _patterns(low: str, high: str, sets: list[str], open_: bool) -> tuple[str, str, str] | None:
    at = next(place for place, (a, b) in enumerate(zip(low, high, strict=True)) if a != b)
    head, letters = low[:at], sets[at]
    inner = letters[letters.index(low[at]) + 1 : letters.index(high[at])]
    rest = "".join(_class(item) for item in sets[at + 1 :])
    tails = [(low[at + 1 :], 0), (high[at + 1 :], -1)]
    whole = not open_ and all(
        tail == "".join(item[end] for item in sets[at + 1 :]) for tail, end in tails
    )
    if not whole and not inner:
        return None
    made = low[at] + inner + high[at] if whole else inner
    plain = f"{head}{_class(made)}{rest}"
    stay = [plain, *([f"{head}{_class(inner)}.*"] if inner else []), f"{low}.+"]
    stay += [] if open_ else [low, high]
    below = made[:-1] if whole else inner
    more = f"{head}{_class(below)}{rest}{_class(sets[-1])}{{1,{_MORE}}}"
    return f"^(?:{'|'.join(stay)})$", f"^{plain}$", f"^{more}$"


def _alphabet(letter: str) -> str:
    return next((letters for letters in _ALPHABETS if letter in letters), "")


def _class(letters: str) -> str:
    """A character class of neighbours."""
    return letters if len(letters) == 1 else f"[{letters[0]}-{letters[-1]}]"
