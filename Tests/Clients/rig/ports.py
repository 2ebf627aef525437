"""Free ports below the ephemeral ports.

A node that restarts needs its ports again: one that the system chose could belong to a client's
connection by then. `DIVAN_PORTS` is the first port of a run, so that runs side by side can use
different ones; each worker of a run has a range of its own behind it.
"""

import itertools
import os
import socket

COUNT = 2_000
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
FIRST = int(os.environ.get("DIVAN_PORTS", 24_000)) + WORKER * COUNT
PORTS = itertools.cycle(range(FIRST, FIRST + COUNT))


def free_port():
    """The next port that no socket is bound to."""
    for port in itertools.islice(PORTS, COUNT):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LookupError(f"no free port from {FIRST} to {FIRST + COUNT - 1}")
