"""Whether the privacy proof of what is compared holds, and why: one line a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from privbench.errors import ConfigError
from privbench.synthesizers import get, names


@dataclass(frozen=True, slots=True)
class Proof:
    """A verdict.

    Attributes:
        verdict: ``sound``: everything learned from rows is noisy and charged. ``doubtful``: a step
            was read that the proof does not cover, or nobody has read it. ``broken``: something
            computed from rows leaves without noise, or with less than its sensitivity asks for.
        reason: Why, in one or two sentences.
        source: The paper or the code that it is about.
    """

    verdict: Literal["sound", "doubtful", "broken"]
    reason: str
    source: str = ""


_TESTED = (
    "Every measurement passes the session's accounting and integer noise; its sensitivity is "
    "proved and held against neighbours of generated databases by the tests."
)
_OWN = {
    "privbench": Proof("sound", _TESTED),
    "independent": Proof("sound", _TESTED),
    "graphical": Proof("sound", f"{_TESTED} Experimental."),
    "privbench-paper": Proof(
        "sound", f"The gaps in the published proof are closed: noisy centres and sizes. {_TESTED}"
    ),
}


def proof_of(name: str, options: dict[str, Any]) -> Proof:
    """The verdict on an installed synthesizer: ours, else what it says of itself by ``proof``."""
    if name in _OWN:
        return _OWN[name]
    if name not in names():
        return Proof("doubtful", "There is no such synthesizer here.")
    try:
        said = getattr(get(name)(options), "proof", None)
    except ConfigError:
        said = None
    if said is None:
        return Proof("doubtful", "No proof was stated, and none was read.")
    return Proof(said.verdict, said.reason, said.source)
