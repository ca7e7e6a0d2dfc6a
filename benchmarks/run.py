"""Run the protocol: make the cells of `protocol.toml`, and the page's section from them.

    python benchmarks/run.py --data FOLDER      make the cells that are not there yet, then the page
    python benchmarks/run.py --page             make the page alone, from the cells that are there

FOLDER holds the public data sets that the protocol names, a folder each. Cells that were made under
this text of the protocol stay; for new ones remove benchmarks/cells and benchmarks/out. The tool is
what `privbench bench` runs, and needs the lab, `psql` and pip, which installs TPC-H's generator and
SyntheRela in environments of their own.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from privbench.pipeline.progress import Reporter
from privbench_lab.bench import BenchConfig, bench
from privbench_lab.bench.protocol import read_cells, section

FOLDER = Path(__file__).parent
PROTOCOL, CELLS, PAGE = (
    FOLDER / "protocol.toml",
    FOLDER / "cells",
    FOLDER.parent / "docs/figures.md",
)
_BEGIN, _END = "<!-- cells: written by benchmarks/run.py -->", "<!-- end of cells -->"


def page(text: str) -> str:
    """The page with the section that follows from the cells on disk."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    figures = section(read_cells(BenchConfig.load(PROTOCOL), CELLS))
    return f"{before}{_BEGIN}\n\n{figures}\n\n{_END}{after}"


def main() -> None:
    """Make cells and page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the public data sets")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="cells at once")
    options = parser.parse_args()
    if not options.page:
        output = FOLDER / "out"
        bench(PROTOCOL, output, folder=options.data, at_once=options.jobs, reporter=Reporter())
        CELLS.mkdir(exist_ok=True)
        for path in (output / "cells").glob("*.json"):
            shutil.copy(path, CELLS)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
