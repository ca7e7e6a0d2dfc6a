"""What stands between private rows and the text of an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from privbench.errors import PrivbenchError
from privbench.privacy.mechanisms import Integers
from privbench.privacy.query import Query

_T = TypeVar("_T")


def shielded(action: Callable[[], _T], complaint: str) -> _T:
    """Run what touches private rows; an error's own text may quote them, so it is dropped.

    Errors of privbench pass: their texts hold nothing private by contract. Either is raised
    outside the handler and without cause or context, so that no chained error hangs on it.

    Raises:
        PrivbenchError: The action failed; the text names the kind of failure only.
    """
    try:
        return action()
    except PrivbenchError as error:
        error.__cause__ = error.__context__ = None
        failure = error
    except Exception as error:
        failure = PrivbenchError(f"{complaint} ({type(error).__name__}).")
    raise failure


def checked(query: Query, values: Any) -> Integers:
    """The statistic, checked against the query's public shape.

    Raises:
        TypeError: It is not an array of int64.
        ValueError: It has another shape.
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise TypeError
    if values.shape != tuple(query.shape):
        raise ValueError
    return values
