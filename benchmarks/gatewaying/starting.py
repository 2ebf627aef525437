"""How soon a gateway serves: its script process and its users included."""

import statistics
import time

from comparison.figures import figure
from comparison.servers import Failure

from .servers import listens

POLL_SECONDS = 0.0005


def measure(server):
    """Milliseconds from the start of the process until the public port accepts a connection."""
    try:
        began = time.monotonic()
        server.launch()
        while not listens(server.port):
            if server.process.poll() is not None or time.monotonic() - began > 60:
                raise Failure(f"{server.name} did not start; see {server.log.name}")
            time.sleep(POLL_SECONDS)
        return 1e3 * (time.monotonic() - began)
    finally:
        server.remove()


def start(plan):
    found = plan.alternate("start", measure, core=None)
    values = [statistics.median(rounds) for rounds in found.values()]
    ours = found["ours"]
    return [figure(
        "from exec until the public port listens", values[0], "ms", 80, 40,
        note=f"{' : '.join(f'{value:.0f}' for value in values)} ms, ours {min(ours):.0f} to "
        f"{max(ours):.0f} ms in {len(ours)} rounds on all cores; the administration port listens and "
        "the last line of the start is written before")]
