"""What a live view costs the reactors, the threads that serve clients, for each write."""

import json
import os
import statistics
import subprocess
import time

from comparison.driver import WORKLOADS
from comparison.figures import figure
from comparison.servers import BUCKET, BUILD, Failure

from .build import grouped
from .node import ViewNode
from .processes import thread_seconds

WORKLOAD = "set100-json-1k"
MAP = "function (doc, meta) { emit(doc.age, null); }"


class Snapshot:
    """Processor time of the reactors, and the writes that the node has answered."""

    def __init__(self, node):
        self.threads = thread_seconds(node.pid, "reactor")
        self.writes = int(node.statistics()["cmd_set"])
        if not self.threads:
            raise Failure("no thread of the node is named reactor")

    def since(self, other):
        """Microseconds of each write, and writes."""
        used = sum(now - other.threads.get(task, 0) for task, now in self.threads.items())
        writes = self.writes - other.writes
        return 1e6 * used / writes, writes


def driver(node, seconds, rate, keys):
    return subprocess.Popen(
        [os.path.join(BUILD, "divan-bench"), os.path.join(WORKLOADS, WORKLOAD + ".json"),
         "--quiet", *node.driver_arguments(), "--seconds", str(seconds), "--warm-up", "0",
         "--rate", str(rate), "--keys", str(keys), "--no-preload"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def measured(node, plan, rate, keys):
    """Microseconds of the reactors for each write of the load's middle: without its logins."""
    seconds = plan.seconds(10)
    load = driver(node, seconds + 1.5, rate, keys)
    try:
        time.sleep(1)
        before = Snapshot(node)
        began = time.monotonic()
        time.sleep(seconds)
        cost, writes = Snapshot(node).since(before)
        elapsed = time.monotonic() - began
        _, errors = load.communicate(timeout=60)
        if load.returncode:
            raise Failure(f"divan-bench: {errors.strip()}")
    finally:
        if load.poll() is None:
            load.kill()
            load.communicate()
    if writes < 0.8 * rate * elapsed:
        raise Failure(f"{writes / elapsed:.0f} of {rate} writes/s were answered")
    return cost


def writes(plan):
    rate, keys = 5_000, plan.scaled(100_000)
    rounds = 5
    found = {"without": [], "with": []}
    with ViewNode(megabytes=1024) as node:
        plan.say(f"writes: {keys:,} documents")
        plan.driver.load(node, WORKLOAD, keys=keys)
        measured(node, plan, rate, keys)  # Not counted: the first one.
        for number in range(rounds):
            plan.say(f"writes: round {number + 1} of {rounds}")
            # Which half is first changes, so that a slow trend harms neither.
            for name in ("without", "with") if number % 2 == 0 else ("with", "without"):
                if name == "with":
                    node.design({"ages": MAP})
                    node.await_built("ages")
                found[name].append(measured(node, plan, rate, keys))
                if name == "with":
                    behind = time.monotonic()
                    node.await_built("ages")
                    behind = time.monotonic() - behind
                    node.undesign()
                    time.sleep(0.5)
    ratios = [ours / theirs for ours, theirs in zip(found["with"], found["without"], strict=True)]
    with_view, without = (statistics.median(found[name]) for name in ("with", "without"))
    return [figure(
        "CPU time of the reactors for a write, bucket with one live view", statistics.median(ratios),
        "x", 1.05, 1.02, note=(
            f"{with_view:.2f} against {without:.2f} us without a view, median of {rounds} alternating "
            f"runs, {min(ratios):.3f} to {max(ratios):.3f}; {grouped(rate)} SET/s of 1 KiB JSON to "
            f"{grouped(keys)} keys, persistent bucket; after the load `stale=false` waited "
            f"{1_000 * behind:.0f} ms"))]
