"""Processor time and memory of processes, from outside."""

import os
import time


def cpu_seconds(pid):
    """Processor time of a process since its start: all its threads, also those that have ended."""
    # The kernel's clock of another process (CPUCLOCK_SCHED), as clock_getcpuclockid(3) names it.
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def children(pid):
    """The processes that a process has started and that still run."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and parent(entry) == pid:
            found.append(int(entry))
    return found


def parent(entry):
    try:
        with open(f"/proc/{entry}/stat") as line:
            return int(line.read().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None


def thread_seconds(pid, name):
    """Processor time of the threads whose names begin with `name`, by thread.

    From `schedstat`, which counts nanoseconds; `stat` counts ticks of ten milliseconds.
    """
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        place = f"/proc/{pid}/task/{task}"
        try:
            with open(f"{place}/comm") as comm:
                if not comm.read().startswith(name):
                    continue
            with open(f"{place}/schedstat") as numbers:
                found[int(task)] = int(numbers.read().split()[0]) / 1e9
        except FileNotFoundError:
            continue  # The thread has ended.
    return found


def private_bytes(pid):
    """RssAnon, as the kernel counts it; 0 if the process has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except FileNotFoundError:
        pass
    return 0


class Usage:
    """Processor time of a server and of its script processes, from creation until `end`."""

    def __init__(self, pid):
        self.pid = pid
        self.began = time.monotonic()
        self.server = cpu_seconds(pid)
        self.before = self.script_seconds()

    def script_seconds(self):
        return {child: cpu_seconds(child) for child in children(self.pid)}

    def end(self):
        """Script processes that ended meanwhile do not count."""
        self.seconds = time.monotonic() - self.began
        self.server = cpu_seconds(self.pid) - self.server
        self.scripts = sum(
            now - self.before.get(child, 0) for child, now in self.script_seconds().items()
        )
        return self
