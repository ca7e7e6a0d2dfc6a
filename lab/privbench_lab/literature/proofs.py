"""Whether the privacy proof of a method holds, and why: one line for every method that is compared.

``sound``: everything that is learned from rows is noisy and charged, by a sensitivity that is
proved and tested. ``doubtful``: we found a step that the proof does not cover, or not in the way it
is used. ``broken``: something computed from rows leaves without noise, or with less noise than its
true sensitivity needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from privbench.synthesizers import get

Verdict = Literal["sound", "doubtful", "broken"]


@dataclass(frozen=True, slots=True)
class Proof:
    """A verdict on one method."""

    verdict: Verdict  # ``sound``, ``doubtful`` or ``broken``
    reason: str  # why, in one or two sentences
    source: str = ""  # the paper or the code that it is about


_SPN = "Heilmann, Cerrato, Althaus: Differentially Private Sum-Product Networks, ICML 2024"
_DGM = (
    "Chowdhury, Rekatsinas, Jha: Data-Dependent Differentially Private Parameter Learning for "
    "Directed Graphical Models, ICML 2020"
)
_QUAIL = (
    "Rosenblatt et al.: Differentially Private Synthetic Data: Applied Evaluations and "
    "Enhancements, 2020"
)
_P3GM = "Takagi, Takahashi, Cao, Yoshikawa: P3GM, ICDE 2021"

_TESTED = (
    "Every measurement passes the session's accounting and integer noise; its sensitivity is "
    "proved and held against neighbours of generated databases by the tests."
)

PROOFS: dict[str, Proof] = {
    "privbench": Proof("sound", _TESTED),
    "independent": Proof("sound", _TESTED),
    "privbench-paper": Proof(
        "sound", f"The gaps in the published proof are closed: noisy centres and sizes. {_TESTED}"
    ),
    "dpspn": Proof(
        "sound",
        "The leaves of a region share its budget over the columns, sum weights are noisy counts, "
        "and bins, splits and their number follow from released numbers.",
        _SPN,
    ),
    "dpspn-as-published": Proof(
        "broken",
        "A product over N columns makes N histograms of the same rows and pays for one; sizes of "
        "clusters, bins, bounds and stopping rules are exact.",
        _SPN,
    ),
    "bayesnet": Proof(
        "sound",
        "Every node's table is one charged histogram; the division of the budget follows from "
        "tables that were released before.",
        _DGM,
    ),
    "bayesnet-as-published": Proof(
        "doubtful",
        "The preliminary tables are paid for as if each row had been sampled independently, which "
        "the algorithm does not do; the noise of a count is that of add/remove alone.",
        _DGM,
    ),
    "quail": Proof(
        "sound",
        "The classifier's histograms and the wrapped synthesizer see the same rows and are charged "
        "one after the other; δ adds as well. As sound as the synthesizer that is wrapped.",
        _QUAIL,
    ),
    "p3gm": Proof(
        "sound",
        "Means, lengths, shares, moments and gradients are sums over rows of bounded integers with "
        "the session's own noise; all rows are in every batch, so no gain by sampling is claimed.",
        _P3GM,
    ),
    "p3gm-as-published": Proof(
        "broken",
        "The mean that centres the PCA, minima and maxima (test rows included) and the shares of "
        "labels are exact; the accounting assumes Poisson batches that it does not draw.",
        _P3GM,
    ),
}


def proof_of(name: str, options: Mapping[str, Any]) -> Proof:
    """The verdict on an installed synthesizer: its own ``proof``, else that of `PROOFS`.

    A synthesizer that wraps another one (by its options ``synthesizer`` and ``options``) gets no
    better verdict than the wrapped one.
    """
    verdicts = get_args(Verdict)
    try:
        said = getattr(get(name)(options), "proof", None) or PROOFS[name]
        proof = Proof(verdicts[verdicts.index(said.verdict)], said.reason, said.source)
    except Exception:  # A stranger's synthesizer may raise anything; then it has no verdict.
        return Proof("doubtful", "No proof was stated, and none was read.")
    inner = options.get("synthesizer")
    if not isinstance(inner, str) or inner == name:
        return proof
    other = proof_of(inner, options.get("options") or {})
    worst = max(proof.verdict, other.verdict, key=verdicts.index)
    return Proof(worst, f"{proof.reason} It wraps {inner}: {other.reason}", proof.source)
