"""The losses of a failover, and the reports of them."""

import re
import threading
import time

from cluster import made
from documents import Documents
from rig.node import wait_until
from rig.wire import Closed, Status, vbucket_of

BUCKET = "travel"
# Nodes report their seqnos twice a second; nothing shows that other nodes have received that.
TOLD = 2.5


def told(cluster, at, pattern):
    """The numbers in a node's log, which shows the events of all nodes."""
    reply = cluster[at].admin.get("/logs?limit=500")
    return [int(found) for entry in reply.json["list"] for found in re.findall(pattern, entry["text"])]


def lost_at_least(cluster, at):
    return told(cluster, at, r"was failed over; at least (\d+) changes? may be lost")


def given_up(cluster, at):
    return told(cluster, at, r"discarded (\d+) changes? of bucket “travel” that no other node had")


def await_flush(node):
    with node.connect(BUCKET) as connection:
        wait_until(lambda: connection.stat()["ep_queue_size"] == "0", 10, "all is on disk")


def test_losses_of_a_failed_node_are_reported_at_failover_and_at_its_return(start):
    """Its replica was down during writes; a third node had received its report."""
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=1_000)
    rows = cluster.vbucket_map(BUCKET, 0)
    active, replica = next((row[0], row[1]) for row in rows if 0 not in row)
    documents = Documents(cluster, BUCKET)
    documents.write("kept", 300, 0)
    documents.await_copies(0)

    await_flush(cluster[replica])
    cluster[replica].kill()
    keys = [
        key
        for key in (b"alone-%d" % number for number in range(5_000))
        if rows[vbucket_of(key, len(rows))] == [active, replica]
    ][:200]
    with cluster[active].connect(BUCKET) as connection:
        for key in keys:
            assert connection.set(key, b"gone").status == Status.SUCCESS
        wait_until(lambda: connection.stat()["ep_queue_size"] == "0", 10, "they are on disk")
    time.sleep(TOLD)
    cluster[active].kill()
    cluster[replica].start()
    address = cluster[replica].address
    wait_until(lambda: cluster.nodes(0)[address]["status"] == "healthy", 20, "the replica is back")
    # The leader may have missed the report itself: the other nodes repeat it.
    time.sleep(TOLD)
    assert cluster.fail_over(active).status == 200
    assert lost_at_least(cluster, 0) == [len(keys)]
    cluster[active].start()
    wait_until(lambda: cluster.membership(active, at=active) == "inactiveFailed", 10, "it is back")
    cluster.take_back(active, "delta")
    cluster.rebalance()
    wait_until(lambda: sum(given_up(cluster, 0)) == len(keys), 10, "the node logs what it discarded")
    assert documents.wrong(0) == {}


def test_running_node_stops_serving_at_once_when_failed_over_manually(start):
    """It accepts no write that would be lost with it, and reports its last seqno."""
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=1_000)
    rows = cluster.vbucket_map(BUCKET, 0)
    acknowledged = []
    end = threading.Event()

    def write():
        numbers = iter(range(10**9))
        with cluster[1].connect(BUCKET) as connection:
            while not end.is_set():
                key = b"live-%d" % next(numbers)
                if rows[vbucket_of(key, len(rows))][0] != 1:
                    continue
                try:
                    reply = connection.set(key, b"x")
                except (Closed, ConnectionError):
                    return
                if reply.status != Status.SUCCESS:
                    return
                acknowledged.append(key)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: len(acknowledged) > 200, 10, "it writes")
        assert cluster.fail_over(1).status == 200
        writer.join(10)
        assert not writer.is_alive(), "it went on taking writes"
    finally:
        end.set()
        writer.join(10)
    documents = Documents(cluster, BUCKET)
    documents.written = {key: b"x" for key in acknowledged}
    lost = len(documents.wrong(0))
    # The number includes every change that was in flight to the replicas.
    assert lost <= sum(lost_at_least(cluster, 0)), (lost, lost_at_least(cluster, 0))
    assert lost < len(acknowledged) // 4, (lost, len(acknowledged))
