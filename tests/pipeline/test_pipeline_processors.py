"""The same model, scale and seed give the same rows, whatever the processor and number of jobs.

Processors are made alike by leaving parts of this one unused: NumPy, OpenBLAS and the C library
each choose by the processor among several ways to compute.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from market import learner
from numpy._core._multiarray_umath import __cpu_dispatch__
from sql_files import database_of, sql_of

from privbench import pipeline
from privbench.config import Config

source = database_of(sql_of(__file__, "processors"))
OF_512 = [name for name in __cpu_dispatch__ if name.startswith(("AVX512", "X86_V4"))]
SETTINGS = {
    "as it is": {},
    "no vectors of 512 bits": {"NPY_DISABLE_CPU_FEATURES": " ".join(OF_512)},
    "another BLAS": {"OPENBLAS_CORETYPE": "Sandybridge", "OPENBLAS_NUM_THREADS": "1"},
    "all of it": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__),
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
        "PYTHONHASHSEED": "7",
    },
}


def drawn(*words, settings):
    """What `drawing` prints with these words, under each of the settings at once."""
    command = [sys.executable, str(Path(__file__).with_name("drawing.py"))]
    running = [
        subprocess.Popen(
            [*command, *map(str, words), *more],
            env={**os.environ, **SETTINGS[name]},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, *more in settings
    ]
    printed = [process.communicate()[0] for process in running]
    assert not any(process.returncode for process in running)
    assert printed[0]
    return printed


def test_functions_that_decide_draws_are_the_same_on_every_processor():
    one, *others = drawn(settings=[(name,) for name in SETTINGS])
    for name, other in zip([*SETTINGS][1:], others, strict=True):
        assert other == one, name


@pytest.fixture(scope="module")
def fitted(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processors")
    base = learner(Config.model_validate({"ledger": {"path": str(folder / "ledger")}}), "privbench")
    config = base.with_privacy(epsilon=50.0, seed=3)
    pipeline.fit(source, pipeline.inspect(source, base=config).config, folder / "m")
    return folder / "m"


@pytest.mark.parametrize("scale", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_rows_are_the_same_on_every_processor(fitted, scale):
    """Trees, sets, siblings, degrees, references, documents and texts are among them."""
    some = ["as it is", "all of it"] if scale == 1 else [*SETTINGS]
    one, *others = drawn(
        fitted, scale, settings=[(name, str(1 + at % 2)) for at, name in enumerate(some)]
    )
    assert len(one.splitlines()) == 4
    for name, other in zip(some[1:], others, strict=True):
        assert other == one, name
