"""The cost of adding a third node, and how fast documents are copied to it."""

import time

from comparison.driver import Driver
from comparison.figures import figure
from comparison.servers import Failure

from . import load
from .members import Cluster, Member, Usage, new_copies

WORKLOAD = "set50-json-1k"
SHARE_OF_PEAK = 0.25


def grouped(number):
    return f"{number:,.0f}".replace(",", " ")


def megabytes(documents):
    """A bucket's quota on each of two nodes that have a copy of everything, with room."""
    return max(256, documents * 1_600 // (1 << 20) * 3 // 2)


def under_load(plan):
    """2 -> 3 nodes while clients read and write."""
    documents = plan.documents
    quota = megabytes(documents)
    with Cluster(3, joined=2, quota=quota + 256) as cluster:
        cluster.create(1, quota)
        plan.say(f"rebalance: storing {grouped(documents)} documents on 2 nodes")
        load.fill(cluster, WORKLOAD, documents)
        cluster.await_persisted(120)
        peak = load.peak(cluster, WORKLOAD, plan.seconds(4), keys=documents)
        rate = SHARE_OF_PEAK * peak
        plan.say(f"rebalance: at {grouped(rate)} of {grouped(peak)} ops/s, before")
        before = load.run(cluster, WORKLOAD, plan.seconds(10), keys=documents, rate=rate,
                          preload=False)
        plan.say("rebalance: at the same rate, during")
        with load.Load(cluster, WORKLOAD, 200, keys=documents, rate=rate, preload=False) as steady:
            time.sleep(0.5)
            usage = Usage(cluster)
            cluster.add(cluster.members[2])
            took = cluster.rebalance(seconds=150)
            usage.end()
            during = steady.end()
        shares = [sum(row[0] == each.port for row in cluster.copies()) for each in cluster.members]
    if max(shares) - min(shares) > 1:
        raise Failure(f"the active vBuckets are distributed as {shares} after the rebalance")
    # Operations that were never started, because too many were in flight, count as failed.
    errors = sum(found["failed"] + found["skipped"] for found in (before, during))
    p99 = [found["getMilliseconds"]["p99"] for found in (before, during)]
    what = f"rebalance 2 -> 3 of {grouped(documents)} x 1 KiB at a quarter of the peak"
    rates = f"{grouped(rate)} of {grouped(peak)} ops/s, half SET, 1 replica, took {took:.1f} s"
    return [
        figure(f"{what}: failed operations", errors, "", 0, note=(
            f"of {grouped(during['succeeded'] + during['failed'])}; {rates}"
            + (f"; {load.told(during)}" if errors else ""))),
        figure("the same: p99 of GET during it, against before it", p99[1] / p99[0], "x", 3, note=(
            f"{p99[1]:.2f} ms against {p99[0]:.2f} ms; p50 {during['getMilliseconds']['p50']:.2f} "
            f"against {before['getMilliseconds']['p50']:.2f} ms, longest "
            f"{during['getMilliseconds']['max']:.0f} ms; {usage}")),
    ]


def copy(plan):
    """2 -> 3 nodes without client load, against flushing the same documents."""
    documents = plan.documents
    flushed, flush_note = flush_speed(plan, documents)
    quota = megabytes(documents)
    with Cluster(3, joined=2, quota=quota + 256) as cluster:
        cluster.create(1, quota)
        plan.say(f"copy: storing {grouped(documents)} documents on 2 nodes")
        load.fill(cluster, WORKLOAD, documents)
        cluster.await_persisted(120)
        before = cluster.copies()
        plan.say("copy: rebalance 2 -> 3")
        usage = Usage(cluster)
        cluster.add(cluster.members[2])
        took = cluster.rebalance()
        usage.end()
        after = cluster.copies()
    copied = new_copies(before, after) / len(after) * documents
    speed = copied / took
    return [figure("copy without load, against flushing on one node", speed / flushed, "x", 0.5,
                   smaller=False, note=(
        f"{grouped(speed)} against {grouped(flushed)} documents/s; {grouped(copied)} copies of "
        f"{grouped(documents)} x 1 KiB in {took:.1f} s, source and target on the same cores: "
        f"{usage}, {1e6 * usage.nodes / copied:.0f} us CPU each; {flush_note}"))]


def flush_speed(plan, documents):
    """Documents a second that a lone node persists: from the first SET until all are persisted."""
    plan.say(f"copy: flushing {grouped(documents)} documents on one node")
    node = Member()
    node.megabytes = megabytes(documents)
    node.quota = node.megabytes + 256
    try:
        node.start()
        node.provision()
        used = node.processor_seconds()
        stored = Driver(0).load(node, WORKLOAD, keys=documents)["seconds"]
        began = time.monotonic()
        left = unpersisted(node)
        first, at_first = left, time.monotonic()
        while left:
            if time.monotonic() - began > 120:
                raise Failure("a node does not persist its documents")
            time.sleep(0.005)
            left = unpersisted(node)
        drained = time.monotonic() - at_first
        used = node.processor_seconds() - used
    finally:
        node.remove()
    seconds = stored + time.monotonic() - began
    return documents / seconds, (
        f"flush: {seconds:.1f} s, {first * 100 // documents} % of it left when all was stored, "
        f"{drained:.1f} s for those; {used / seconds:.1f} cores busy")


def unpersisted(node):
    return int(node.statistics()["ep_queue_size"])
