"""How long keys of a failed node cannot be written, and what a graceful failover costs."""

import statistics
import time

from comparison.figures import figure
from comparison.servers import Failure

from . import load
from .members import Cluster

# Each key is written a dozen times a second: the outage of a key is sampled only by its requests.
KEYS, RATE = 240, 3_000
AFTER = 4.0


def durable(plan):
    """The same for durable writes, with two replicas: the remaining copies are a majority."""
    return outage(plan, 2, "majority")


def killed(plan):
    """Kills nodes in turn, each in a cluster of its own; the founder is the first leader."""
    return outage(plan, 1, None)


def outage(plan, replicas, durability):
    rounds = plan.rounds
    times = []
    for number in range(rounds):
        plan.say(f"kill -9, {durability or 'no'} durability, {number + 1} of {rounds}")
        times.append(one_outage(replicas, durability, number % 3))
    what = "kill -9 until all keys of the node are written again"
    if durability:
        what += f", durably ({durability})"
    every = ", ".join("never" if each == float("inf") else f"{each:.2f}" for each in times)
    return [figure(what, statistics.median(times), "s", 2, note=(
        f"median of {rounds}: {every}; 3 nodes, {replicas} replica(s), default timeout of 5 s, "
        f"node 1, 2, 3 in turns; {KEYS} keys, each written every {1000 * KEYS / RATE:.0f} ms, "
        "from the signal to the last key's success"))]


def one_outage(replicas, durability, victim):
    options = {"durability": durability} if durability else {}
    with Cluster(3) as cluster:
        cluster.fail_over_automatically(5)
        cluster.create(replicas)
        load.fill(cluster, "set50-100", KEYS)
        # A new leader waits before its first failover, as it would in production.
        time.sleep(1)
        with load.Load(cluster, "set50-100", 1 + AFTER, keys=KEYS, rate=RATE, write_percent=100,
                       preload=False, **options) as writes:
            time.sleep(1)
            began = cluster.members[victim].kill()
            found = writes.wait()
    if not found["succeeded"]:
        raise Failure(f"no write at all succeeded: {load.told(found)}")
    return recovery(found, began)


def recovery(found, killed):
    """Seconds until the last key was written again; infinite if the load ended first."""
    again = found.get("writtenAgainAtNanoseconds", 0)
    if again < killed and not found["unwrittenKeys"]:
        raise Failure("the load measured no outage of any key after the kill")
    return float("inf") if found["unwrittenKeys"] else (again - killed) / 1e9


def graceful(plan):
    """Fails a node over gracefully while clients read and write."""
    failed, done, took, slowest = 0, 0, [], 0
    documents, rate = plan.scaled(20_000), 2_000
    for victim in (2, 0):
        plan.say(f"graceful failover of node {victim + 1}")
        with Cluster(3) as cluster:
            cluster.create(1)
            load.fill(cluster, "set50-json-1k", documents)
            with load.Load(cluster, "set50-json-1k", 90, keys=documents, rate=rate,
                           preload=False) as steady:
                time.sleep(1)
                member = cluster.members[victim]
                took.append(cluster.fail_over_gracefully(member))
                time.sleep(0.5)
                found = steady.end()
            rows = cluster.copies()
        if any(row[0] == member.port for row in rows):
            raise Failure("the map still has active vBuckets on the failed-over node")
        # Operations that were never started, because too many were in flight, count as failed.
        failed += found["failed"] + found["skipped"]
        done += found["succeeded"]
        slowest = max([slowest] + [
            found[kind].get("max", 0) for kind in ("getMilliseconds", "setMilliseconds")])
    return [figure("graceful failover under load: failed operations", failed, "", 0, note=(
        f"of {done + failed}, half SET, at {rate} a second, slowest {slowest:.0f} ms; took "
        + " and ".join(f"{time:.1f} s" for time in took)
        + f" with {documents} x 1 KiB; node 3, then (in a new cluster) node 1"))]

