"""Split names of tables and columns into words, make them singular, look them up in ``words.toml``.

Words of other languages are read as English ones by ``languages.toml``, and so are those of a
config's ``[words]`` (`own_words`).
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import resources
from typing import Any

from privbench.errors import ConfigError
from privbench.limits import Element

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = re.compile(r"[^\W\d_]+")
#: Words of the user, each with the English ones that it is read as.
_OWN: ContextVar[tuple[tuple[str, tuple[str, ...]], ...]] = ContextVar("own words", default=())
#: Glued words shorter than this are left whole.
_LEAST_GLUED = 5


def _cached(read: Callable[..., Element]) -> Callable[..., Element]:
    """Remember what a function reads in names, apart for every choice of `own_words`."""

    @cache
    def known(_: object, *names: str) -> Element:
        return read(*names)

    @wraps(read)
    def found(*names: str) -> Element:
        return known(_OWN.get(), *names)

    return found


@cache
def lists() -> dict[str, Any]:
    """Return the word lists as they stand in ``words.toml``."""
    return _read_toml("words.toml")


def _read_toml(file: str) -> dict[str, Any]:
    text = resources.files("privbench").joinpath(file).read_text("utf-8")
    return tomllib.loads(text)


@cache
def listed(*path: str) -> frozenset[str]:
    """Return one list as a set: ``listed("tables", "subject")``."""
    branch: Any = lists()
    for part in path:
        branch = branch[part]
    return frozenset(branch)


#: Letters that are no other letter with an accent, and how names without accents write them.
_PLAIN_LETTERS = str.maketrans({"ß": "ss", "ł": "l", "ø": "o", "æ": "ae", "ı": "i", "œ": "oe"})
#: How names without accents write vowels in German and Swedish, where they do not drop the accent.
_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa"})


def _without_accents(word: str) -> str:
    """A word without accents.

    >>> [_without_accents(word) for word in ("prénom", "müşteri", "straße")]
    ['prenom', 'musteri', 'strasse']
    """
    letters = unicodedata.normalize("NFKD", word.translate(_PLAIN_LETTERS)).lower()
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _spellings(word: str) -> set[str]:
    return {_without_accents(word), _without_accents(word.translate(_TWO_LETTERS))}


@contextmanager
def own_words(meanings: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Read the user's words, within this context, as the words of the lists that they stand for.

    They take precedence over all other words, English ones among them.

    >>> with own_words({"person": ["Azubi", "azubis"], "created": ["angelegt"]}):
    ...     words("Azubis"), words("angelegt_von")
    (('person',), ('created', 'by'))

    Raises:
        ConfigError: No list has a word as which others are to be read.
    """
    own = {}
    for meaning, written in meanings.items():
        read = tuple(meaning.lower().split())
        if not read or not {*read} <= _english():
            fault = f"[words] reads words as {meaning!r}, which no list has."
            raise ConfigError(fault, remedy="See docs/roles.md.")
        for word in written:
            for spelling in _spellings(word.lower()):
                own[spelling] = own[singular(spelling)] = read
    token = _OWN.set(tuple(sorted(own.items())))
    try:
        yield
    finally:
        _OWN.reset(token)


@_cached
def _foreign() -> dict[str, tuple[str, ...]]:
    """The English words of the user's words, and of other languages' that are no English ones."""
    english = _english()
    translations = {}
    for language in _read_toml("languages.toml").values():
        for meaning, written in language.items():
            for word in written:
                for spelling in _spellings(word) - english:
                    translations[spelling] = tuple(meaning.split())
    return translations | dict(_OWN.get())


@_cached
def _vocabulary() -> frozenset[str]:
    """Every word that glued names are split into."""
    return _english() | _foreign().keys()


@cache
def _english() -> frozenset[str]:
    """Every word of ``words.toml``."""
    data = lists()
    phrases = [phrase for kind in data["personal"].values() for phrase in kind["phrases"]]
    tables = [words for name, words in data["tables"].items() if name != "words"]
    pairs = [word for pair in data["pairs"] for word in pair]
    groups = [*tables, *data["keys"].values(), *data["columns"].values(), phrases, pairs]
    groups.append(data["tables"]["words"]["noise"])
    known = {word for group in groups for phrase in group for word in phrase.split()}
    return frozenset(word for word in known if word.isalpha() and len(word) > 1)


@_cached
def words(name: str) -> tuple[str, ...]:
    """Return the singular, lower-case words of a name.

    >>> words("OrderItems"), words("lasteditoruserid"), words("tbl_people2")
    (('order', 'item'), ('last', 'editor', 'user', 'id'), ('tbl', 'person'))
    >>> words("Kundennummer"), words("detalle_pedido"), words("prénom")
    (('customer', 'number'), ('detail', 'order'), ('first', 'name'))
    """
    pieces = _LETTERS.findall(_CAMEL.sub("_", name).lower())
    split = (word for piece in pieces for word in _unglue(_without_accents(piece) or piece))
    return tuple(read for word in split for read in _foreign().get(word, (word,)))


def snake(name: str) -> str:
    """Return a name in small letters with underscores between words, for matching by patterns.

    Unlike the result of `words`, it keeps digits, plurals and glued words, which patterns may name.

    >>> snake("OrderItems2"), snake("Ship Via"), snake("userid")
    ('order_items2', 'ship_via', 'userid')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace(" ", "_")


def singular(word: str) -> str:
    """Return the singular of an English noun, by rule and by the list of exceptions.

    >>> [singular(word) for word in ("countries", "addresses", "status", "people", "posts")]
    ['country', 'address', 'status', 'person', 'post']
    """
    plurals: dict[str, str] = lists()["plurals"]
    if word in plurals:
        return plurals[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def _unglue(piece: str) -> tuple[str, ...]:
    """Split ``owneruserid`` into as few known words as cover it; leave others whole."""
    whole = singular(piece)
    known = _vocabulary()
    if whole in known or piece in known or len(piece) < _LEAST_GLUED:
        return (whole,)
    best: dict[int, tuple[str, ...]] = {0: ()}
    for end in range(2, len(piece) + 1):
        options = [
            (*best[start], singular(piece[start:end]))
            for start in range(end - 1)
            if start in best and (piece[start:end] in known or singular(piece[start:end]) in known)
        ]
        if options:
            best[end] = min(options, key=len)
    return best.get(len(piece), (whole,))


def noun(name: str) -> tuple[str, ...]:
    """Return the words of a table's name without words that say nothing (``tbl_``, ``_data``).

    >>> noun("tbl_customer_master"), noun("data")
    (('customer',), ('data',))
    """
    result = list(words(name))
    noise = listed("tables", "words", "noise")
    while len(result) > 1 and result[-1] in noise:
        result.pop()
    while len(result) > 1 and result[0] in noise:
        result.pop(0)
    return tuple(result)


@_cached
def calendar_part(name: str) -> str:
    """Return the part of a date that a column's name says it holds, or ''.

    >>> calendar_part("d_dow"), calendar_part("MonthNumberOfYear"), calendar_part("fiscal_year")
    ('weekday', 'month', '')
    """
    rules = lists()["calendar"]
    left = [word for word in words(name) if len(word) > 1 and word not in rules["filler"]]
    return str(rules["parts"].get(" ".join(left), ""))


@_cached
def personal_kinds(name: str, category: str) -> frozenset[str]:
    """Return the kinds of personal data that a column's name and type category suggest.

    >>> sorted(personal_kinds("FirstName", "S")), sorted(personal_kinds("emailpromotion", "N"))
    (['name'], [])
    >>> sorted(personal_kinds("passenger_name", "S")), sorted(personal_kinds("id_student", "N"))
    (['name'], ['person'])
    """
    name_words = words(name)
    is_key = bool(name_words) and name_words[-1] in listed("keys", "suffix") - {
        "number",
        "no",
        "code",
    }
    rules = lists()["personal"]
    kinds = {
        kind
        for kind, rule in rules.items()
        if any(_holds(name_words, tuple(phrase.split()), is_key) for phrase in rule["phrases"])
    }
    if name_words[-1:] == ("name",) and of_person(name_words[:-1]):
        kinds.add("name")
    if of_person(stem(name)) and stem(name) != name_words:
        kinds.add("person")
    return frozenset(kind for kind in kinds if category in rules[kind]["types"])


def stem(name: str) -> tuple[str, ...]:
    """Return the words of a key's name without the words that say that it is a key.

    >>> stem("customer_unique_id"), stem("id_student"), stem("number_of_students")
    (('customer', 'unique'), ('student',), ('number', 'of', 'student'))
    """
    result = list(words(name))
    suffix = listed("keys", "suffix")
    while len(result) > 1 and result[-1] in suffix:
        result.pop()
    if len(result) > 1 and result[0] in ("id", "fk"):
        result.pop(0)
    return tuple(result)


def of_person(name_words: tuple[str, ...]) -> bool:
    """Return whether a name's words end with a word for people, whatever stands before it."""
    people = listed("tables", "subject") | listed("tables", "work")
    return bool(
        {*name_words[-1:], "".join(name_words[-2:])} & (people - listed("tables", "ambiguous"))
    )


def _holds(name_words: tuple[str, ...], phrase: tuple[str, ...], at_end: bool) -> bool:
    """Whether a name holds a phrase; names of keys (``race_id``) must hold it ``at_end``."""
    size = len(phrase)
    last = len(name_words) - size
    return any(
        name_words[start : start + size] == phrase
        for start in range(last if at_end else 0, last + 1)
        if start >= 0
    )
