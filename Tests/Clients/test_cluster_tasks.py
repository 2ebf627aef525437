"""A rebalance in `tasks`: while it runs, per node, and after its end."""

import pytest

from cluster import Cluster, made
from documents import Documents
from rig.node import wait_until

BUCKETS = {"small": 300, "travel": 3_000}
VBUCKETS = 64
ALWAYS = {"statusId", "type", "subtype", "status", "statusIsStale", "masterRequestTimedOut"}
RUNNING = ALWAYS | {
    "rebalanceId",
    "recommendedRefreshPeriod",
    "progress",
    "perNode",
    "stageInfo",
    "nodesInfo",
    "masterNode",
    "detailedProgress",
}
NUMBERS = ["docsTotal", "docsTransferred", "activeVBucketsLeft", "replicaVBucketsLeft"]


def rebalance_task(cluster, at=0):
    (task,) = [
        task
        for task in cluster[at].admin.get("/pools/default/tasks").json
        if task["type"] == "rebalance"
    ]
    return task


def watch(cluster, at=0, seconds=60):
    """All reports of a node about the rebalance until its end, and the last one."""
    said = []

    def is_over():
        task = rebalance_task(cluster, at)
        if task["status"] == "running":
            said.append(task)
            return None
        return task

    return said, wait_until(is_over, seconds, "the rebalance is over")


def start_rebalance(cluster, eject=()):
    """Starts a slow rebalance; returns its id."""
    form = {"rebalanceMovesPerNode": 1}
    assert cluster[0].admin.post("/settings/rebalance", form).status == 200
    names = [node["otpNode"] for node in cluster.nodes().values()]
    gone = [cluster.name(number) for number in eject]
    form = {"knownNodes": ",".join(names), "ejectedNodes": ",".join(gone)}
    reply = cluster[0].admin.post("/controller/rebalance", form)
    assert reply.status == 200, reply
    return reply.json["rebalance_id"]


def summed(detailed, direction):
    return {
        number: sum(node[direction][number] for node in detailed["perNode"].values())
        for number in NUMBERS
    }


def check_running(task, identifier, names):
    assert RUNNING <= task.keys() <= RUNNING | {"waitingFor"}
    assert (task["type"], task["subtype"], task["status"]) == ("rebalance", "rebalance", "running")
    assert task["statusId"] == task["rebalanceId"] == identifier
    assert task["statusIsStale"] is False and task["masterRequestTimedOut"] is False
    assert task["recommendedRefreshPeriod"] == 0.25
    assert 0 <= task["progress"] <= 100
    assert task["perNode"].keys() == names
    assert all(0 <= node["progress"] <= 100 for node in task["perNode"].values())
    assert isinstance(task["stageInfo"], dict)
    assert task["masterNode"] in names


def check_detailed(detailed, names):
    assert detailed.keys() == {"bucket", "bucketNumber", "bucketsCount", "perNode"}
    assert detailed["bucketsCount"] == len(BUCKETS)
    assert 1 <= detailed["bucketNumber"] <= len(BUCKETS)
    assert detailed["perNode"].keys() == names
    for node in detailed["perNode"].values():
        assert node.keys() == {"ingoing", "outgoing"}
        for direction in node.values():
            assert list(direction) == NUMBERS
            assert all(type(number) is int and number >= 0 for number in direction.values())
            assert direction["docsTransferred"] <= direction["docsTotal"]
            assert direction["activeVBucketsLeft"] <= VBUCKETS
            assert direction["replicaVBucketsLeft"] <= VBUCKETS
    # Outgoing changes equal incoming ones.
    ingoing, outgoing = summed(detailed, "ingoing"), summed(detailed, "outgoing")
    for number in ("docsTotal", "docsTransferred", "activeVBucketsLeft"):
        assert ingoing[number] == outgoing[number], (number, detailed)


def test_running_rebalance_reports_progress_per_node_and_bucket(start):
    cluster = start(Cluster, 3)
    cluster.add(1)
    cluster.rebalance()
    for bucket, count in BUCKETS.items():
        cluster[0].create_bucket(bucket, replicaNumber=1, numVBuckets=VBUCKETS)
        documents = Documents(cluster, bucket)
        documents.write("kept", count, at=0)
        documents.await_copies(at=0)
    cluster.add(2)
    names = [cluster.name(number) for number in range(3)]
    # A leaving node stays in the map for a second after the last move: its end is visible.
    identifier = start_rebalance(cluster, eject=(1,))
    said, over = watch(cluster)
    detailed = [task["detailedProgress"] for task in said if task["detailedProgress"]]
    assert detailed, said
    for task in said:
        check_running(task, identifier, set(names))
        assert task["nodesInfo"] == {
            "active_nodes": names,
            "keep_nodes": [names[0], names[2]],
            "eject_nodes": [names[1]],
            "delta_nodes": [],
            "failed_nodes": [],
        }
    for each in detailed:
        check_detailed(each, set(names))
    progress = [task["progress"] for task in said]
    assert progress == sorted(progress) and progress[0] < progress[-1]
    # One bucket after the other, each under one number.
    order = [(each["bucketNumber"], each["bucket"]) for each in detailed]
    assert order == sorted(order)
    assert sorted(set(order)) == list(enumerate(BUCKETS, 1))

    halfway = [each for each in detailed if each["bucket"] == "travel"]
    begins, ends = halfway[0]["perNode"], halfway[-1]["perNode"]
    count = BUCKETS["travel"]
    # A copy of everything goes to the new node, and none to a node that stays.
    assert begins[names[2]]["ingoing"]["docsTotal"] == count
    assert begins[names[0]]["ingoing"]["docsTotal"] == 0
    left = begins[names[1]]["outgoing"]
    assert 0 < left["activeVBucketsLeft"] + left["replicaVBucketsLeft"] <= VBUCKETS
    assert begins[names[2]]["outgoing"] == dict.fromkeys(NUMBERS, 0)
    for name, node in ends.items():
        for direction in node.values():
            assert direction["docsTransferred"] == direction["docsTotal"], (name, ends)
            assert direction["activeVBucketsLeft"] == 0, (name, ends)
            assert direction["replicaVBucketsLeft"] == 0, (name, ends)
    assert ends[names[2]]["ingoing"]["docsTransferred"] == count

    assert over == {
        "statusId": identifier,
        "type": "rebalance",
        "subtype": "rebalance",
        "status": "notRunning",
        "statusIsStale": False,
        "masterRequestTimedOut": False,
    }
    for at in (0, 2):
        wait_until(lambda at=at: rebalance_task(cluster, at) == over, 5, "all say the same")
        assert cluster.progress(at) == {"status": "none"}


def test_graceful_failover_is_reported_as_its_own_task_by_every_node(start):
    cluster = start(made, 3, ["travel"])
    documents = Documents(cluster, "travel")
    documents.write("kept", 1_000, at=0)
    documents.await_copies(at=0)
    names = [cluster.name(number) for number in range(3)]
    reply = cluster.fail_over(2, path="startGracefulFailover")
    assert reply.status == 200
    # A request for a rebalance does not return this one.
    form = {"knownNodes": ",".join(names), "ejectedNodes": ""}
    reply = cluster[1].admin.post("/controller/rebalance", form)
    assert reply.status == 503 and "graceful failover" in reply.json["error"], reply
    said, over = watch(cluster, at=1)
    assert said
    for task in said:
        assert (task["subtype"], task["status"]) == ("gracefulFailover", "running")
        assert task["nodesInfo"]["keep_nodes"] == names[:2]
    assert said[0]["nodesInfo"]["eject_nodes"] == [names[2]]
    assert said[0]["nodesInfo"]["failed_nodes"] == []
    for at in range(3):
        wait_until(lambda at=at: rebalance_task(cluster, at) == over, 5, "all say the same")
    assert (over["subtype"], over["status"]) == ("gracefulFailover", "notRunning")
    assert "errorMessage" not in over
    # Another rebalance is another task.
    cluster.take_back(2, "delta")
    cluster.start_rebalance()
    said, last = watch(cluster)
    assert said and said[0]["nodesInfo"]["delta_nodes"] == [names[2]]
    assert last["subtype"] == "rebalance" and last["statusId"] != over["statusId"]


def test_node_that_is_down_cannot_leave_gracefully_and_its_copies_are_missing(start):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1_000)
    down = cluster.followers()[0]
    at = 0 if down else 1

    def shares():
        status = cluster[at].admin.get("/nodeStatuses").json
        return {number: status[cluster[number].address]["replication"] for number in range(3)}

    assert set(shares().values()) == {1}
    cluster[down].kill()
    address = cluster[down].address
    wait_until(lambda: cluster.nodes(at)[address]["status"] == "unhealthy", 10, "it is missed")
    assert all(0 < share < 1 for number, share in shares().items() if number != down)
    reply = cluster.fail_over(down, at, path="startGracefulFailover")
    assert reply.status == 400 and "does not answer" in reply.text, reply
    assert cluster[at].admin.get("/pools/default").json["rebalanceStatus"] == "none"
    cluster[down].start()
    wait_until(lambda: set(shares().values()) == {1}, 20, "it is back")


def test_stopped_rebalance_is_not_reported_as_failed(start):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1_000)
    assert 2 in cluster.followers()
    rows = cluster.vbucket_map("travel")
    reply = cluster[0].admin.post("/pools/default/buckets/travel", {"replicaNumber": 2})
    assert reply.status == 200, reply
    # The node is suspended, so no copy on it completes.
    cluster[2].suspend()
    try:
        identifier = start_rebalance(cluster)
        assert rebalance_task(cluster)["status"] == "running"
        reply = cluster[0].admin.post("/controller/stopRebalance")
        assert reply.status == 200, reply
        task = rebalance_task(cluster)
        assert (task["status"], task["statusId"]) == ("notRunning", identifier)
        assert task.keys() == ALWAYS
        assert cluster.progress() == {"status": "none"}
    finally:
        cluster[2].resume()
    now = cluster.vbucket_map("travel")
    assert [row[0] for row in now] == [row[0] for row in rows]
    assert any(None in row for row in now)


@pytest.mark.parametrize("identifier", ["none", "00112233445566778899aabbccddeeff"])
def test_unknown_task_id_is_not_found(start, identifier):
    cluster = start(made, 1)
    reply = cluster[0].admin.get(f"/pools/default/tasks?taskId={identifier}")
    assert (reply.status, reply.text) == (404, "Requested resource not found.\r\n")
