"""What an outside consumer of changes (DCP) costs a node, against the streams between nodes."""

import json
import os
import statistics
import subprocess
import tempfile
import time

from comparison.driver import Driver
from comparison.figures import figure
from comparison.servers import BUCKET, BUILD, Divan, Failure

from . import load
from .members import Cluster, new_copies
from .rebalance import grouped, megabytes

WORKLOAD = "set50-json-1k"
GETS = "get-1k"
# Few, so that the cost of moving a vBucket is small against that of its documents.
VBUCKETS = 64


def process_nanoseconds(pid):
    """Processor time of all threads of a process, as the kernel counts it in nanoseconds."""
    # The clock of another process (clock_getcpuclockid): its number, inverted, and the kind.
    return time.clock_gettime_ns(~pid << 3 | 2)


def consumer_command(member, *flags):
    return [
        os.path.join(BUILD, "divan-bench"), "consume", "--port", str(member.port),
        "--bucket", BUCKET, "--user", Divan.user, "--password", Divan.password, *flags,
    ]


def consume(member):
    """Streams everything from a node to an outside consumer; returns its report."""
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        command = consumer_command(member, "--server-pid", str(member.pid), "--json", result.name)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failure(f"divan-bench consume: {done.stderr.strip()}")
        with open(result.name) as found:
            return json.load(found)


class IdleConsumer:
    """An outside consumer with a stream of every vBucket, from the present on."""

    def __init__(self, member):
        self.process = subprocess.Popen(
            consumer_command(member, "--idle"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise Failure(f"divan-bench consume --idle: {self.end()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        errors = self.end()
        if self.process.returncode != 0:
            raise Failure(f"divan-bench consume --idle: {errors}")

    def end(self):
        return self.process.communicate(timeout=30)[1].strip()


def copied(cluster, source, target):
    """Adds a node, which gets a copy of everything; returns the nanoseconds that the source used."""
    before = cluster.copies()
    cluster.add(target)
    used = process_nanoseconds(source.pid)
    cluster.rebalance()
    used = process_nanoseconds(source.pid) - used
    share = new_copies(before, cluster.copies()) / len(before)
    if share != 1:
        raise Failure(f"the new node has copies of {share:.2f} of the vBuckets")
    return used


def removed(cluster, target):
    cluster.rebalance(eject=[target])
    # The removed node deletes its data before it can be added again.
    time.sleep(1)


def efficiency(plan):
    """Bytes for a second of a node's processor time: to a consumer, and to a replica."""
    documents = min(plan.documents, 300_000)
    rounds = 1 if plan.quick else 5
    quota = megabytes(documents)
    with Cluster(2, joined=1, kind="ephemeral", quota=quota + 256) as cluster:
        source, target = cluster.members
        cluster.create(0, quota, vbuckets=VBUCKETS, wanted=1)
        plan.say("changes: moves of an empty bucket")
        empty = []
        for _ in range(rounds):
            empty.append(copied(cluster, source, target))
            removed(cluster, target)
        plan.say(f"changes: storing {grouped(documents)} documents")
        load.fill(cluster, WORKLOAD, documents)
        consume(source)  # Not counted: the first one.
        streams, copies = [], []
        for number in range(rounds):
            plan.say(f"changes: round {number + 1} of {rounds}")
            streams.append(consume(source))
            copies.append(copied(cluster, source, target))
            removed(cluster, target)
    if any(each["changes"] != documents for each in streams):
        raise Failure(f"{streams[0]['changes']} of {documents} documents were streamed")
    return ratio(streams, copies, empty, documents)


def ratio(streams, copies, empty, documents):
    """The figure, from the reports of consumers and the nanoseconds of copies."""
    size = statistics.median(each["bytes"] for each in streams) / 1e6
    outside = statistics.median(each["serverCPUSeconds"] for each in streams)
    fixed, whole = (statistics.median(each) / 1e9 for each in (empty, copies))
    inside = whole - fixed
    if inside <= 0:
        raise Failure(f"a copy of an empty bucket uses {fixed:.3f} s, of the documents {whole:.3f} s")
    return figure(
        "bytes streamed by second of CPU to an outside consumer, against a replica",
        inside / outside, "x", 0.6, 1, smaller=False, note=(
            f"{size / outside:.0f} against {size / inside:.0f} MB/s of the node's CPU, median of "
            f"{len(streams)} alternating runs; {grouped(documents)} x 1 KiB from memory, "
            f"{VBUCKETS} vBuckets; a rebalance 1 -> 2 less {1e3 * fixed:.0f} ms for that of an empty "
            f"bucket; the consumer used {median_driver(streams):.2f} s, the node {outside:.2f} s"))


def median_driver(streams):
    return statistics.median(each["driverCPUSeconds"] for each in streams)


def idle_cost(plan):
    """The processor time of a GET, with and without an idle consumer of all vBuckets."""
    rounds = 3 if plan.quick else 7
    seconds, keys = plan.seconds(4), plan.scaled(100_000)
    node, driver = Divan(1), Driver(0)
    found = {"without": [], "with": []}
    try:
        node.start()
        node.provision()
        plan.say("changes: documents for GET")
        driver.load(node, GETS, keys=keys)
        for number in range(rounds):
            plan.say(f"changes: GET, round {number + 1} of {rounds}")
            # Which half is first changes, so that a slow trend harms neither.
            for name in ("without", "with") if number % 2 == 0 else ("with", "without"):
                if name == "with":
                    with IdleConsumer(node):
                        found[name].append(gets(driver, node, keys, seconds))
                else:
                    found[name].append(gets(driver, node, keys, seconds))
    finally:
        node.remove()
    ratios = [ours / theirs for ours, theirs in zip(found["with"], found["without"], strict=True)]
    beside, alone = (statistics.median(found[name]) for name in ("with", "without"))
    return figure(
        "CPU time of a GET beside an idle outside consumer", statistics.median(ratios), "x", 1.05,
        note=(
            f"{beside:.0f} against {alone:.0f} ns, median of {rounds} alternating runs, "
            f"{min(ratios):.3f} to {max(ratios):.3f}; GET of 1 KiB, 50 connections, depth 16, server "
            "and driver on a core each; a stream of each of 1 024 vBuckets"))


def gets(driver, node, keys, seconds):
    """Nanoseconds of the server's processor time for a GET."""
    report = driver.run(node, GETS, keys=keys, seconds=seconds, warm_up=0.5, preload=False)
    return report["server"]["cpuNanosecondsPerOp"]


def changes(plan):
    return [efficiency(plan), idle_cost(plan)]
