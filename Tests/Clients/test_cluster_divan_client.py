"""DivanClient, as `divan-bench check` uses it, while the cluster changes."""

import contextlib
import json
import signal
import subprocess
import time

import pytest
from couchbase.exceptions import DocumentNotFoundException

from cluster import Cluster, made
from rig import sdk
from rig.node import PASSWORD, SERVER, USER, wait_until

BENCH = SERVER.with_name("divan-bench")
# Errors that the client may get while a node leaves: each means a retry.
RETRIABLE = {"ambiguous", "deadline", "unreachable", "temporaryFailure", "durableWriteInProgress"}


class Check:
    """Writes and reads keys alternately until `end`, which returns the findings."""

    def __init__(self, cluster, path, durability=None, keys=100, prefix="check"):
        self.path = path
        places = ",".join(f"{each.host}:{each.kv_port}" for each in cluster.members)
        command = [str(BENCH), "check", "--bootstrap", places, "--bucket", "travel"]
        command += ["--user", USER, "--password", PASSWORD, "--seconds", "120", "--quiet"]
        command += ["--keys", str(keys), "--prefix", prefix, "--rate", "1500", "--json", str(path)]
        command += ["--durability", durability] if durability else []
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )

    def end(self):
        """Ends it; returns its exit code, report and output."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        said = "".join(self.process.communicate(timeout=60))
        print(said)
        return self.process.returncode, json.loads(self.path.read_text()), said


@pytest.fixture
def check(tmp_path):
    with contextlib.ExitStack() as running:

        def begin(cluster, durability=None, **options):
            each = Check(cluster, tmp_path / f"{durability}.json", durability, **options)
            running.callback(each.process.communicate)
            running.callback(each.process.kill)
            return each

        yield begin


def bring_back(cluster, number):
    """Starts a failed-over node again and rebalances it in."""
    cluster[number].start()
    cluster.take_back(number)
    print("rebalance:", cluster.rebalance(), "s")


@pytest.mark.parametrize("level", ["majority", "majorityAndPersistOnActive", "persistToMajority"])
def test_divan_client_loses_no_durable_write_through_kill_failover_and_rebalance(start, check, level):
    cluster = start(made, 3, ["travel"], replicaNumber=2)
    cluster.set_auto_failover(timeout=1)
    writes = check(cluster, level)
    time.sleep(1.5)
    cluster[2].kill()
    wait_until(lambda: cluster.membership(2) == "inactiveFailed", 15, "it is failed over")
    time.sleep(2)
    bring_back(cluster, 2)
    time.sleep(0.5)
    code, found, said = writes.end()
    assert (code, found["faults"], found["unread"]) == (0, [], 0), said
    assert set(found["refused"]) <= RETRIABLE, said
    assert found["writes"] > 200 and found["reads"] > 200


def test_divan_client_sees_no_error_while_the_cluster_grows_and_shrinks(start, check):
    cluster = start(Cluster, 4)
    cluster.add(1)
    cluster.rebalance()
    cluster[0].create_bucket("travel", replicaNumber=1, numVBuckets=64)
    checks = [check(cluster), check(cluster, "majority", prefix="durable")]
    time.sleep(1)
    for number in (2, 3):
        cluster.add(number)
    print("2 -> 4 nodes:", cluster.rebalance(), "s")
    print("4 -> 3 nodes:", cluster.rebalance(eject=(0,), at=1), "s")
    time.sleep(0.5)
    for writes in checks:
        code, found, said = writes.end()
        assert (code, found["faults"], found["unread"]) == (0, [], 0), said
        assert found["refused"] == {}, said
        assert found["writes"] > 200 and found["reads"] > 200


def test_check_reports_lost_versions_and_values_that_were_never_written(start, check):
    cluster = start(made, 1, ["travel"])
    writes = check(cluster, keys=4)
    connection = sdk.connect(cluster)
    try:
        collection = connection.bucket("travel").default_collection()
        wait_until(lambda: collection.exists("check-3").exists, 10, "all keys are written")
        for _ in range(200):
            # Between a removal and the next write there is nothing to remove.
            with contextlib.suppress(DocumentNotFoundException):
                collection.remove("check-1")
            collection.upsert("check-2", {"version": "mine"})
            time.sleep(0.005)
    finally:
        connection.close()
    code, found, said = writes.end()
    assert code == 1
    faults = [(each["key"], each["what"]) for each in found["faults"]]
    assert any(key == "check-1" and "was acknowledged" in what for key, what in faults), said
    assert any(key == "check-2" and "never written" in what for key, what in faults), said
    assert not {key for key, _ in faults} & {"check-0", "check-3"}
    assert "reads found invalid versions" in said
