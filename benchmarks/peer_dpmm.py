"""One peer of the shoot-out, run by the package dpmm in a Python environment of its own.

    python peer_dpmm.py IN.csv DOMAIN.json OUT.csv NAME EPSILON DELTA SEED

Writes as many synthetic rows as there are real ones and prints CPU seconds as a JSON object.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """Fit and sample."""
    import pandas as pd

    source, domain, target, name, epsilon, delta, seed = sys.argv[1:]
    rows = pd.read_csv(source)
    with open(domain) as file:
        sizes = json.load(file)
    pipeline = _pipeline(name, float(epsilon), float(delta))
    started = time.process_time()
    pipeline.fit(rows, domain=sizes, random_state=int(seed))
    fitted = time.process_time()
    made = pipeline.generate(n_records=len(rows), random_state=int(seed))
    sampled = time.process_time()
    made[list(rows.columns)].to_csv(target, index=False)
    print(json.dumps({"fit": fitted - started, "sample": sampled - fitted}))


def _pipeline(name: str, epsilon: float, delta: float) -> object:
    from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

    kinds = {"mst": MSTPipeline, "aim": AIMPipeline, "privbayes": PrivBayesPipeline}
    return kinds[name](epsilon=epsilon, delta=delta, disable_processing=True)


if __name__ == "__main__":
    main()
