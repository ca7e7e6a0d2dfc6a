"""Run what a stranger's text might make endless, under limits of processor time and memory."""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

#: Seconds of processor time: what is linear in the size of its text takes a twentieth, at most.
SECONDS = 20
#: Bytes of memory beyond those that the process has.
MEMORY = 3 << 29


def bounded(act: Callable[[], object], seconds: int = SECONDS, memory: int = MEMORY) -> None:
    """Run it in a process of its own, which has to end well within these limits."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            room = pages * resource.getpagesize() + memory
            resource.setrlimit(resource.RLIMIT_AS, (room, room))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            signal.alarm(20 * seconds)  # What waits takes no processor time.
            act()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
