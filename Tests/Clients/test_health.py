"""`/healthz` and `/readyz` through the life of a node, without a login and for any name in `Host`."""

import http.client
import os
import threading
import time

from cluster import Cluster
from documents import Documents
from rig.node import wait_until

# By hand 1 000 000.
DOCUMENTS = int(os.environ.get("DIVAN_DOCUMENTS", 20_000))
HOST = {"Host": "balancer.example"}


class Health:
    """Asks one node for its health twenty times a second; None where it does not answer."""

    def __init__(self, node):
        self.node = node
        self.alive, self.ready = [], []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()

    def _answer(self, path):
        try:
            reply = self.node.anonymous.get(path, headers=HOST, seconds=10)
        except (OSError, http.client.HTTPException):
            return None
        return reply.status, reply.text.strip()

    def _ask(self):
        while not self.stopped.is_set():
            for path, seen in ("/healthz", self.alive), ("/readyz", self.ready):
                answer = self._answer(path)
                if not seen or seen[-1] != answer:
                    seen.append(answer)
            time.sleep(0.05)

    def end(self):
        self.stopped.set()
        self.thread.join(30)

    def await_ready(self, answer):
        wait_until(lambda: self.ready and self.ready[-1] == answer, 60, f"/readyz is {answer}")


READY = 200, "ready"


def test_health_is_true_through_start_load_join_failover_and_stop(start):
    cluster = start(Cluster, 3)
    # The restart of a process on a busy machine is no failover.
    cluster.set_auto_failover(timeout=1_000)
    watched = [Health(member) for member in cluster.members]
    try:
        # Nodes that wait to be set up are ready, as is the one that was provisioned.
        for health in watched:
            health.await_ready(READY)
        cluster[0].create_bucket("b", replicaNumber=1, numVBuckets=64)
        Documents(cluster, "b").write("key", DOCUMENTS, 0)
        for number in 1, 2:
            cluster.add(number)
        cluster.rebalance(seconds=600)
        # Through all this a node that had a bucket stayed ready.
        assert watched[0].ready == [READY]
        for health in watched:
            health.await_ready(READY)

        # A node that restarts is alive at once, and ready when it knows the state and has its bucket.
        cluster[1].stop()
        watched[1].await_ready(None)
        cluster[1].start()
        watched[1].await_ready(READY)

        # A crash and a failover leave the others ready. The failed-over node says so when it returns.
        cluster[2].kill()
        watched[2].await_ready(None)
        assert cluster.fail_over(2).status == 200
        cluster[2].start()
        failed = 503, "The node was failed over. Add it back and rebalance."
        watched[2].await_ready(failed)
        cluster.take_back(2)
        cluster.rebalance(seconds=600)
        watched[2].await_ready(READY)

        assert watched[0].ready == [READY]
        for member in cluster.members:
            member.stop()
        for health in watched:
            health.await_ready(None)
    finally:
        for health in watched:
            health.end()
    for health in watched:
        assert {answer for answer in health.alive if answer} == {(200, "ok")}
        assert all(answer is None or answer[0] in (200, 503) for answer in health.ready)


def test_node_without_a_majority_is_alive_and_not_ready(start):
    cluster = start(Cluster, 2)
    cluster.add(1)
    cluster.rebalance()
    cluster[1].kill()

    def ready():
        return cluster[0].anonymous.get("/readyz", headers=HOST)

    wait_until(lambda: ready().status == 503, 30, "the node misses the majority")
    assert "majority of the nodes" in ready().text
    assert cluster[0].anonymous.get("/healthz").status == 200
    cluster[1].start()
    wait_until(lambda: ready().status == 200, 30, "the majority is back")


def test_health_answers_head_and_hides_buckets_without_a_login(make_node):
    node = make_node().start().provision().create_bucket("secret")
    for path in "/healthz", "/readyz":
        whole = node.anonymous.get(path, headers=HOST)
        head = node.anonymous.request("HEAD", path, headers=HOST)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["Content-Length"] == str(len(whole.body))
        assert node.anonymous.post(path).status == 405
    node.stop()
    # The bucket's files cannot be read: it is not loaded, and a stranger does not learn its name.
    (file, *_) = sorted(node.database_files())
    file.write_bytes(b"no database" * 1000)
    node.start()
    wait_until(lambda: node.anonymous.get("/readyz").status == 503, 10, "the bucket has failed")
    assert node.anonymous.get("/readyz").text == "1 bucket not loaded; a login has the names.\r\n"
    assert "Bucket secret does not serve" in node.admin.get("/readyz").text
    assert node.anonymous.get("/healthz").status == 200
