"""Keep values of private rows out of the texts of errors."""

from collections.abc import Callable
from typing import TypeVar

from privbench.errors import PrivbenchError

_T = TypeVar("_T")


def shielded(action: Callable[[], _T], complaint: str) -> _T:
    """Run an action on private rows and replace its errors, whose texts may quote the rows.

    Errors of privbench keep their texts, which hold nothing private by contract. Any other error
    becomes a PrivbenchError that names only the kind of failure. Both are raised outside the
    handler and without cause or context, so that no chained error comes with them.
    """
    try:
        return action()
    except PrivbenchError as error:
        error.__cause__ = error.__context__ = None
        failure = error
    except Exception as error:
        failure = PrivbenchError(f"{complaint} ({type(error).__name__}).")
    raise failure
