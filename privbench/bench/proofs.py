"""Whether the privacy proof of what is compared holds, and why: one line a method."""

from __future__ import annotations

from typing import Any

from privbench.errors import ConfigError
from privbench.literature.proofs import Proof
from privbench.synthesizers import get, names

_TESTED = (
    "Every measurement passes the session's accounting and integer noise; its sensitivity is "
    "proved and held against neighbours of generated databases by the tests."
)
_OWN = {
    "privbench": Proof("sound", _TESTED, ""),
    "independent": Proof("sound", _TESTED, ""),
    "graphical": Proof("sound", f"{_TESTED} Experimental.", ""),
    "privbench-paper": Proof(
        "sound",
        f"The gaps in the published proof are closed: noisy centres and sizes. {_TESTED}",
        "",
    ),
}


def proof_of(name: str, options: dict[str, Any]) -> Proof:
    """The verdict on an installed synthesizer: ours, else what it says of itself by ``proof``."""
    if name in _OWN:
        return _OWN[name]
    if name not in names():
        return Proof("doubtful", "There is no such synthesizer here.", "")
    try:
        said = getattr(get(name)(options), "proof", None)
    except ConfigError:
        said = None
    if said is None:
        return Proof("doubtful", "No proof was stated, and none was read.", "")
    return Proof(said.verdict, said.reason, said.source)
