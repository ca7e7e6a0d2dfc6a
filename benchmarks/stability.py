"""The stability harness over a whole fit of a live database.

    python benchmarks/stability.py SOURCE -c CONFIG.toml
    python benchmarks/stability.py SOURCE -c CONFIG.toml --synthesizer independent --accounting zcdp

Fits SOURCE as the config says, into a ledger that is thrown away, and evaluates every query that
the fit asked on neighbours of its rows: without the heaviest units, the hubs, the most referring,
units rooted in a row without an owner, units at random; and again after the worst hubs are gone, so
that ⊥ edges are there. Prints the events checked, the worst ratio of observed to claimed change,
and the worst ratio of each kind of query. Exits with 1 if a claim is violated. CONFIDENTIAL.
"""

from __future__ import annotations

import argparse
import sys
import time

from privbench.config import Config, SynthesizerConfig
from privbench.pipeline.stability import Trace, check_trace, trace
from privbench.privacy.stability import StabilityReport


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Check every claim of a fit on real neighbours.")
    parser.add_argument("source", help="DSN of the source")
    parser.add_argument("-c", "--config", required=True)
    parser.add_argument("--synthesizer")
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--accounting", choices=["auto", "pure", "zcdp"])
    parser.add_argument("--neighbours", choices=["add-remove", "replace"])
    parser.add_argument("--most", type=int, default=1, help="units of each telling kind")
    parser.add_argument("--ordinary", type=int, default=10, help="further units at random")
    parser.add_argument("--gone", type=int, default=2, help="hubs taken out for a second round")
    parser.add_argument("--seed", type=int, default=0, help="chooses the units at random")
    return parser.parse_args()


def configured(given: argparse.Namespace) -> Config:
    """The config with what the command line changes."""
    config = Config.load(given.config)
    changes = {
        name: value
        for name in ("epsilon", "accounting", "neighbours")
        if (value := getattr(given, name)) is not None
    }
    update: dict[str, object] = {"privacy": config.privacy.model_copy(update=changes)}
    if given.synthesizer:
        update["synthesizer"] = SynthesizerConfig(name=given.synthesizer)
    return config.model_copy(update=update)


def table(traced: Trace, report: StabilityReport) -> str:
    """Worst ratio by kind and table."""
    kinds: dict[tuple[str, str], list[float]] = {}
    for query, ratio in zip(traced.queries, report.worst, strict=True):
        kinds.setdefault((query.kind, query.table), []).append(ratio)
    lines = [f"{'query':<22}{'table':<28}{'events':>7}{'worst ratio':>13}"]
    lines += [
        f"{kind:<22}{name:<28}{len(found):>7}{max(found):>13.6f}"
        for (kind, name), found in sorted(kinds.items())
    ]
    return "\n".join(lines)


def main() -> int:
    """Run it."""
    given = arguments()
    start = time.monotonic()
    traced = trace(given.source, configured(given))
    fitted = time.monotonic()
    report = check_trace(
        traced, most=given.most, ordinary=given.ordinary, gone=given.gone, seed=given.seed
    )
    print(table(traced, report))
    print(report)
    for violation in report.violations[:10]:
        print(traced.labels[violation.event], violation)
    print(f"fit {fitted - start:.1f} s, check {time.monotonic() - fitted:.1f} s")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
