"""Workers of a Dask cluster: processes of the data's owner that encode and count parts of tables.

Private data is sent between the processes: codes, weights, exact partial counts. It is pickled, so
all processes must trust one another, and so must all who reach them: an address that other machines
may reach needs TLS, which is configured in Dask (``tls://``), or the user's word (`TRUST_NETWORK`).
The scheduler and the workers must run on machines of the data's owner. Dask writes the
arguments of a task that fails into its log. So every argument and every result is wrapped as
`Held`, which prints nothing, and no task fails: an error is returned as a value, and its text
quotes no rows (`shielded`).

Nothing is drawn here: weights, ranks and noise come from the process of the session alone. A task
is a function of its arguments, so one that is run again on another worker gives the same integers.
"""

import ipaddress
import re
import socket
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Self

import lazy_loader
import numpy as np
from numpy.typing import NDArray

from privbench import __version__
from privbench.arrays import AnyInts, Ints
from privbench.errors import ConfigError, ConnectionFailed, PrivbenchError, UsageError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.error_masking import shielded
from privbench.privacy.queries.axes import AxisCodes
from privbench.privacy.queries.counting import Marginals, View, local

#: Dask's module, imported when a scheduler is first used; None if Dask is not installed.
distributed: Any = lazy_loader.load("distributed") if find_spec("distributed") else None

#: What stands for this process in place of an address.
LOCAL = "local"
#: Whether the user says that nobody else reaches the network of a scheduler without TLS.
TRUST_NETWORK: ContextVar[bool] = ContextVar("trust_network", default=False)
_ADDRESS = re.compile(r"(tcp|tls)://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):[0-9]{1,5}")
#: Seconds to wait for the scheduler, and for a first worker where there is none.
WAIT = 30
#: Most times that a count is tried, since workers may be lost.
TRIES = 5
#: Tables of at most this many rows are counted in the session's process; parts of larger tables
#: have at least this many.
LEAST_ROWS = 2**17
#: Most rows of a part.
MOST_ROWS = 2**22
#: Bytes of codes and weights that the workers keep for the next count.
KEPT_BYTES = 8 * 2**30


class Held:
    """A private or secret object that is sent between two processes; its text shows nothing."""

    __slots__ = ("what",)

    def __init__(self, what: Any) -> None:
        self.what = what

    def __repr__(self) -> str:
        return "Held(private)"


class Lost(Exception):
    """A worker is gone, and with it the data that was sent to it."""


def guarded(version: str, function: Callable[..., Any], *given: Held) -> Held | PrivbenchError:
    """Run a function in a worker; return its result, or the error as a value; raise nothing."""
    if version != __version__:
        return ConfigError(
            f"a worker has privbench {__version__}, this process {version}.",
            remedy="Install the same version on every worker.",
        )
    try:
        complaint = "a worker could not do its part"
        return Held(shielded(lambda: function(*(item.what for item in given)), complaint))
    except PrivbenchError as error:
        return error


def require_closed(address: str) -> None:
    """Refuse an address that other machines may reach without TLS, or that is no scheduler's.

    Nothing is connected. `TRUST_NETWORK` lets other machines in, but no other kind of address;
    `LOCAL` is this process.

    Raises:
        UsageError: The address is refused.
    """
    if address == LOCAL:
        return
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise UsageError(
            f"{address!r} is no address of a Dask scheduler.",
            remedy="Write tls://host:port or tcp://host:port.",
        )
    scheme, host = parts[1], parts[2] or parts[3]
    if scheme != "tls" and not TRUST_NETWORK.get() and not _is_loopback(host):
        raise UsageError(
            f"{address} is reached without TLS: whoever reaches it can run programs as you, here "
            "and on the workers, and read rows and passwords on their way.",
            remedy="Use tls:// (docs/scale.md), keep scheduler and workers on 127.0.0.1, or say "
            "--trust-network if nobody else reaches that network.",
        )


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine's loopback interface: a name other than localhost is not."""
    hosts = [host]
    try:
        if host.lower() == "localhost":
            hosts = [str(item[4][0]) for item in socket.getaddrinfo(host, None)]
        return all(ipaddress.ip_address(item).is_loopback for item in hosts)
    except (OSError, ValueError):
        return False


class Workers:
    """The workers of one scheduler, at ``tcp://host:8786`` or ``tls://host:8786``.

    An address that other machines reach without TLS, be it the scheduler's or a worker's, is a
    UsageError (`require_closed`). If Dask is not installed, or workers would write their data to a
    disk, that is a ConfigError.
    """

    def __init__(self, address: str) -> None:
        require_closed(address)
        if distributed is None:
            raise ConfigError(
                "workers need Dask.",
                remedy="Install it here and there with: pip install 'privbench[dask]'",
            )
        refused: str | None = None
        try:
            self._client = distributed.Client(
                address, timeout=WAIT, set_as_default=False, direct_to_workers=True
            )
        except (OSError, ValueError, TypeError) as error:
            refused = type(error).__name__
        if refused:
            raise ConnectionFailed(f"no Dask scheduler answers at {address} ({refused}).")
        try:
            # The address may be that of a tunnel, or one of several at which the scheduler listens.
            require_closed(self._client.scheduler_info()["address"])
            self._client.wait_for_workers(1, timeout=WAIT)
            self.addresses()
            # A worker that never writes data to disk has a plain dictionary for it. A lambda is
            # pickled by value, so it also runs on workers without privbench.
            in_memory = self._client.run(lambda dask_worker: type(dask_worker.data) is dict)
        except OSError:
            self.close()
            raise ConnectionFailed(
                f"the Dask scheduler at {address} has no workers that answer."
            ) from None
        except UsageError:
            self.close()
            raise
        if not all(in_memory.values()):
            self.close()
            raise ConfigError(
                "workers that run short of memory would write private rows to their disk, where "
                "every account can read them.",
                remedy="Start them with distributed.worker.memory.target and spill set to false "
                "in Dask's configuration (docs/scale.md).",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all data on the workers, and disconnect from the scheduler."""
        self._client.close()

    def addresses(self) -> list[str]:
        """Return the workers that are connected now, in order; refuse addresses without TLS."""
        addresses = sorted(self._client.nthreads())
        for address in addresses:
            require_closed(address)
        return addresses

    def send(self, what: Any, worker: str) -> Any:
        """Send an object to a worker, which keeps it; the returned future is for `submit`.

        If the worker is gone, `Lost` is raised.
        """
        try:
            # Dask would name the object in its logs by a hash of the content; hash=False avoids it.
            (sent,) = self._client.scatter([Held(what)], workers=[worker], hash=False)
        except (OSError, CancelledError, TimeoutError, ValueError, KeyError):
            raise Lost from None
        return sent

    def submit(self, function: Callable[..., Any], *given: Any) -> Any:
        """Submit a call of a function of this package to the workers, and return its future.

        Arguments other than futures are sent as `Held`, whose text shows no values.
        """
        arguments = [item if isinstance(item, distributed.Future) else Held(item) for item in given]
        return self._client.submit(guarded, __version__, function, *arguments, pure=False)

    def result(self, future: Any) -> Any:
        """Return the result of a call; raise `Lost` if data that it needs is gone with a worker."""
        while True:
            try:
                answer = future.result(timeout=WAIT)
            except TimeoutError:
                if self.addresses():
                    continue
                answer = ConnectionFailed("the Dask scheduler has no workers any more.")
            except CancelledError:
                raise Lost from None
            except Exception as error:
                # The error's text may quote anything, so only its kind is given, which shows
                # whether memory or a module is missing.
                answer = PrivbenchError(
                    f"workers could not do their part ({type(error).__name__})."
                )
            if isinstance(answer, PrivbenchError):
                raise answer
            return answer.what


class WorkersCounter:
    """Counts parts of a table's rows on workers, and adds up their counts (`counter`).

    This process has the codes, the units and the weights of all rows: a unit's rows may lie in any
    parts, and their weights follow from how many rows the unit has in all of them (one aggregate
    over the whole table, before any part is made). A worker is sent the codes and the weights of
    its rows once and keeps them; it returns integers. Small tables, and regions by splits, are
    counted in this process.
    """

    def __init__(self, workers: Workers, *, least: int | None = None) -> None:
        self._workers = workers
        self._least = least or LEAST_ROWS
        self._sent: OrderedDict[tuple[int, int, int], tuple[Any, int, Any]] = OrderedDict()

    def __call__(self, data: PrivateDatabase, sets: Marginals) -> list[Ints]:
        """The histograms; an error if workers are lost in each of `TRIES` attempts."""
        parted = sets.region is not None and not sets.region.whole
        if data._rows(sets.table) <= self._least or parted:
            return local(data, sets)
        for _ in range(TRIES):
            try:
                return self._count(data, sets)
            except Lost:
                self._sent.clear()
        raise ConnectionFailed("workers of the Dask scheduler were lost again and again.")

    def _count(self, data: PrivateDatabase, sets: Marginals) -> list[Ints]:
        reads = [axis.read(data, sets.table) for axis in sets.axes]
        codes, weights = data._units.weight_codes(sets.table)
        axes = [lookup for _, lookup in reads], [axis.size for axis in sets.axes], sets.sets
        workers = self._workers.addresses()
        if not workers:
            raise ConnectionFailed("the Dask scheduler has no workers any more.")
        step = min(max(self._least, -(-codes.size // len(workers))), MOST_ROWS)
        calls = []
        for number, start in enumerate(range(0, codes.size, step)):
            worker = workers[number % len(workers)]
            columns = (codes, *(column for column, _ in reads))
            sent = [self._send(column, start, start + step, worker) for column in columns]
            calls.append(self._workers.submit(count_part, axes, weights, *sent))
        totals = [np.zeros(shape, dtype=np.int64) for shape in sets.shapes]
        for call in calls:
            for total, part in zip(totals, self._workers.result(call), strict=True):
                total += part
        return totals

    def _send(self, column: NDArray[Any], start: int, stop: int, worker: str) -> Any:
        """A part of a column on a worker, sent now if it is not there yet."""
        key = id(column), start, stop
        if key in self._sent:
            self._sent.move_to_end(key)
            return self._sent[key][2]
        part = packed(column[start:stop])
        future = self._workers.send(part, worker)
        # A column that was freed is not counted again, and another object may get its id.
        gone = weakref.ref(column, lambda _: self._sent.pop(key, None))
        self._sent[key] = gone, part[0].nbytes, future
        while sum(size for _, size, _ in list(self._sent.values())) > KEPT_BYTES:
            self._sent.popitem(last=False)
        return future


def packed(part: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return a part of a column as it is sent, and its length; equal numbers are sent as one.

    >>> packed(np.broadcast_to(np.int64(7), 3))
    (array([7], dtype=int32), 3)
    """
    same = part.strides == (0,)
    values = part[:1] if same else part
    # Weights and row numbers of parts fit 32 bits: the largest weight is 2³⁰.
    if values.dtype == np.int64 and values.size and values.min() >= 0 and values.max() < 2**31:
        values = values.astype(np.int32)
    return np.ascontiguousarray(values), part.size


def unpacked(part: tuple[NDArray[Any], int]) -> NDArray[Any]:
    """Return the part of a column that was `packed`."""
    values, length = part
    return values if values.size == length else np.broadcast_to(values[0], length)


def count_part(
    axes: tuple[list[AnyInts | None], list[int], Sequence[Sequence[int]]],
    weights: AnyInts,
    *columns: tuple[NDArray[Any], int],
) -> list[Ints]:
    """Count histograms over one part of a table's rows; runs in a worker.

    Args:
        axes: For every axis, a table from codes to cells, or None where the codes are the cells;
            the numbers of cells; for every histogram, the positions of its axes in these lists.
        weights: The distinct weights of rows.
        columns: As `packed` gives them: first the position of each row's weight in ``weights``,
            then each row's code on every axis.
    """
    lookups, sizes, sets = axes
    of_weights, *codes = (unpacked(column) for column in columns)
    reads: list[AxisCodes] = list(zip(codes, lookups, strict=True))
    return View(reads, sizes, (of_weights, weights)).count(sets)
