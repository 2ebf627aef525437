"""Missing copies are an alert until they exist, and each document counts once while vBuckets move."""

import threading
import time

from cluster import Member, made
from documents import Documents
from rig.browser import Browser
from rig.node import PASSWORD, USER, wait_until

COUNT = 5_000


def alerts(node, text="fewer copies than configured"):
    """The alerts about lost redundancy, by default."""
    found = [alert["msg"] for alert in node.admin.get("/pools/default").json["alerts"]]
    return [message for message in found if text in message]


def lost(node):
    pool = node.admin.get("/pools/default").json
    return {entry["bucket"]: entry["vBuckets"] for entry in pool["lostRedundancy"]}


def test_replica_of_a_lone_node_is_an_alert_until_it_is_not_wanted(make_node):
    node = make_node().start().provision()
    node.create_bucket("one", replicaNumber=1, numVBuckets=64)
    node.create_bucket("none", replicaNumber=0, numVBuckets=64)
    assert node.admin.get("/pools/default").json["balanced"] is True
    assert lost(node) == {"one": 64}
    (alert,) = alerts(node)
    assert alert.startswith("64 of 64 vBuckets of bucket one ") and "(1 replica)" in alert
    assert "Add a node and rebalance" in alert and "number of replicas to 0." in alert
    assert node.admin.post("/pools/default/buckets/one", {"replicaNumber": "0"}).status == 200
    assert alerts(node) == [] and lost(node) == {}


def test_page_has_the_alert_and_does_not_call_the_copies_complete(make_node):
    node = make_node().start().provision().create_bucket("one", replicaNumber=1)
    page = Browser()
    try:
        page.open(f"http://127.0.0.1:{node.admin_port}/")
        page.fill("user", USER)
        page.fill("password", PASSWORD)
        page.click("log in")
        page.wait_for_text("fewer copies than configured")
        page.evaluate("location.hash = '#/nodes'")
        page.wait_for_text("copies are missing.")
        assert "every copy is in its place" not in page.text().lower()
    finally:
        page.close()


def test_copies_lost_by_a_failover_are_an_alert_until_a_rebalance_creates_them(start):
    cluster = start(made, 3, buckets=["b"])
    cluster.set_auto_failover(timeout=1_000)
    assert [alerts(node) for node in cluster.members] == [[], [], []]
    cluster[2].kill()
    wait_until(lambda: alerts(cluster[0], "does not answer"), 20, "the alert about the node")
    assert cluster.fail_over(2).status == 200
    wait_until(lambda: not alerts(cluster[0], "does not answer"), 20, "the node is failed over")
    missing = sum(len([node for node in row if node is not None]) < 2
                  for row in cluster.vbucket_map("b"))
    assert 32 <= missing < 64
    for node in cluster[0], cluster[1]:
        wait_until(lambda: lost(node) == {"b": missing}, 10, "both nodes know the failover")
        (alert,) = alerts(node)
        assert alert.startswith(f"{missing} of 64 vBuckets of bucket b ")
        assert alert.endswith("Rebalance to create the missing copies.")
    cluster.rebalance(eject=[2])
    for node in cluster[0], cluster[1]:
        wait_until(lambda: not lost(node), 10, "every copy exists")
        assert alerts(node) == []


class Counts:
    """Reads the number of documents of a bucket from nodes, again and again."""

    def __init__(self, nodes, bucket):
        self.nodes, self.bucket = nodes, bucket
        self.seen = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._read)

    def _read(self):
        while not self.stopped.is_set():
            for node in self.nodes:
                bucket = node.admin.get(f"/pools/default/buckets/{self.bucket}").json
                parts = [each["interestingStats"].get("curr_items") for each in bucket["nodes"]]
                self.seen.append((bucket["basicStats"]["itemCount"], parts))
            time.sleep(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join(30)


def test_each_document_counts_once_during_and_after_a_rebalance(start):
    cluster = start(made, 2, buckets=["b"])
    Documents(cluster, "b").write("key", COUNT, 0)
    wait_until(lambda: all(
        node.admin.get("/pools/default/buckets/b").json["basicStats"]["itemCount"] == COUNT
        for node in cluster.members
    ), 10, "both nodes count all documents")
    # A third node takes part, then leaves.
    third = Member()
    third.start()
    cluster.members.append(third)
    with Counts(cluster.members[:2], "b") as counts:
        cluster.add(2)
        cluster.rebalance()
        time.sleep(2)
        cluster.rebalance(eject=[2])
        time.sleep(2)
    assert len(counts.seen) > 50
    assert {total for total, _ in counts.seen} == {COUNT}
    whole = [parts for _, parts in counts.seen if None not in parts]
    assert {sum(parts) for parts in whole} == {COUNT}


def test_status_of_the_launcher_has_the_alert_with_its_cure(checkout):
    checkout.start("--bucket", "one:100:1", "--bucket", "none:100:0")
    (alert,) = checkout.status()["alerts"]
    assert alert.startswith("1024 of 1024 vBuckets of bucket one ")
    assert "number of replicas to 0." in alert
    assert f"\nalert   {alert}\n" in checkout.run("status")
    form = {"replicaNumber": "0"}
    assert checkout.admin.post("/pools/default/buckets/one", form).status == 200
    assert checkout.status()["alerts"] == [] and "alert" not in checkout.run("status")
