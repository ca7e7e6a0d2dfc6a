"""Keep values of private rows out of the texts of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from privbench.errors import PrivbenchError

_T = TypeVar("_T")


def shielded(action: Callable[[], _T], complaint: str) -> _T:
    """Run what touches private rows; an error's own text may quote them, so it is dropped.

    Errors of privbench pass: their texts hold nothing private by contract. Either is raised outside
    the handler and without cause or context, so that no chained error comes with it. The
    PrivbenchError names the kind of failure only.
    """
    try:
        return action()
    except PrivbenchError as error:
        error.__cause__ = error.__context__ = None
        failure = error
    except Exception as error:
        failure = PrivbenchError(f"{complaint} ({type(error).__name__}).")
    raise failure
