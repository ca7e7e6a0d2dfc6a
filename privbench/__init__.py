"""Publish benchmarks from private PostgreSQL databases; `privbench.api` is the Python interface."""

from importlib import import_module

__version__ = "0.1.0"
__all__ = ["compare", "connect", "fit"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("privbench.api"), name)
    raise AttributeError(f"module 'privbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
