"""How far replicas are behind."""

from comparison.figures import figure
from comparison.servers import Failure

from . import load
from .members import Cluster
from .rebalance import grouped

WORKLOAD = "set50-json-1k"
SAMPLES_A_SECOND = 200


def lag(plan):
    documents = plan.scaled(100_000)
    with Cluster(3, quota=768) as cluster:
        cluster.create(1, 512)
        plan.say("lag: storing documents on 3 nodes")
        load.fill(cluster, WORKLOAD, documents)
        peak = load.peak(cluster, WORKLOAD, plan.seconds(4), keys=documents)
        plan.say(f"lag: at half of {grouped(peak)} ops/s")
        found = load.run(cluster, WORKLOAD, plan.seconds(15), keys=documents, rate=peak / 2,
                         preload=False, sample_replication=SAMPLES_A_SECOND)
    seen = found["replication"]
    behind, resolution = seen["lagMilliseconds"], seen["resolutionMilliseconds"]
    if found["failed"] or seen["failed"] or seen["givenUp"]:
        raise Failure(
            f"of the load {found['failed']} operations failed ({load.told(found)}), of the samples "
            f"{seen['failed']} writes; {seen['givenUp']} never reached the replica")
    return [figure("replication lag at half the peak, p99", behind["p99"], "ms", 50, note=(
        f"p50 {behind['p50']:.2f} ms, longest {behind['max']:.1f} ms, of {behind['count']} writes, "
        "from each one's answer until GET_REPLICA has it; the last question and its answer are "
        f"counted in and took {resolution['p50']:.2f} ms (p50), {resolution['p99']:.2f} ms (p99); "
        f"3 nodes, 1 replica, {grouped(peak / 2)} of {grouped(peak)} ops/s, half SET of 1 KiB"))]
