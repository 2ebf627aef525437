"""Several divan-server processes that become one cluster, always ended by process number."""

import os
import signal
import time

from rig.node import PASSWORD, PORT_FLAGS, USER, Node, wait_until

class Member(Node):
    """A node of a cluster; `ports` are those of `PORT_FLAGS`, free ones where none are given."""

    def __init__(self, ports=None, **options):
        flags = [str(each) for pair in zip(PORT_FLAGS, ports or ()) for each in pair]
        flags += options.pop("flags", ())
        super().__init__(*flags, "--memory-quota", "512", **options)
        # Chosen before the start, because `address` must be known for all members.
        self.kv_port, self.admin_port = (
            int(self.flags[self.flags.index(name) + 1]) for name in PORT_FLAGS[:2]
        )
        # The names by which the other nodes know it; on several machines not always its address.
        self.name = self.host

    @property
    def address(self):
        return f"{self.name}:{self.admin_port}"

    def suspend(self):
        """Stops all its threads; on a busy machine they run on for a while after the signal."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(self._is_suspended, 10, "the node stands still")

    def _is_suspended(self):
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "T":
                    return False
        return True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self, seconds=30):
        self.resume()
        return super().stop(seconds)


class Cluster:
    """Nodes that were started together; the first is provisioned, the others have no cluster.

    `members` is how many there are, or who they are.
    """

    def __init__(self, members):
        self.members = (
            [Member() for _ in range(members)] if isinstance(members, int) else members
        )
        try:
            for member in self.members:
                member.start()
            self.members[0].provision(512)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, number):
        return self.members[number]

    def __len__(self):
        return len(self.members)

    def close(self):
        for member in self.members:
            member.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def living(self):
        return [member for member in self.members if member.is_running]

    @property
    def connection_string(self):
        """All nodes, so that a client can bootstrap from any running one."""
        places = ",".join(f"{member.host}:{member.kv_port}" for member in self.members)
        return f"couchbase://{places}"

    # The state of the cluster

    def nodes(self, at=0):
        """Its nodes by address, as one of them reports them."""
        reply = self[at].admin.get("/pools/default")
        return {node["hostname"]: node for node in reply.json["nodes"]}

    def membership(self, number, at=0):
        found = self.nodes(at).get(self[number].address)
        return found and found["clusterMembership"]

    def name(self, number, at=0):
        return self.nodes(at)[self[number].address]["otpNode"]

    def followers(self, at=0):
        """The numbers of all nodes but the one that leads, as soon as one does."""

        def leader():
            name = self[at].admin.get("/pools/default/terseClusterInfo").json["orchestrator"]
            return [place for place, node in self.nodes(at).items() if node["otpNode"] == name]

        others = self.nodes(at).keys() - wait_until(leader, 20, "there is a leader")
        return [number for number, each in enumerate(self.members) if each.address in others]

    def vbucket_map(self, bucket, at=0):
        """For each vBucket the addresses of its copies, active first; None where one is missing."""
        reply = self[at].admin.get(f"/pools/default/b/{bucket}").json
        servers = reply["vBucketServerMap"]["serverList"]
        numbers = {
            f"{member.name}:{member.kv_port}": number
            for number, member in enumerate(self.members)
        }
        places = [numbers[place.replace("$HOST", self[at].host)] for place in servers]
        return [
            [places[each] if each >= 0 else None for each in row]
            for row in reply["vBucketServerMap"]["vBucketMap"]
        ]

    def progress(self, at=0):
        return self[at].admin.get("/pools/default/rebalanceProgress").json

    def rebalance_task(self, at=0):
        """The running rebalance in `tasks`, without the progress of each node."""
        for task in self[at].admin.get("/pools/default/tasks").json:
            if task["type"] == "rebalance":
                return {key: value for key, value in task.items() if key != "perNode"}
        return None

    def logs(self):
        return "\n".join(f"--- {member.address}\n{member.log()}" for member in self.members)

    # Orders

    def add(self, number, at=0):
        form = {
            "hostname": self[number].address,
            "user": USER,
            "password": self[number].token or PASSWORD,
            "services": "kv",
        }
        reply = self[at].admin.post("/controller/addNode", form)
        if reply.status != 200:
            raise RuntimeError(f"addNode: {reply!r}")
        return reply.json["otpNode"]

    def start_rebalance(self, eject=(), at=0):
        nodes = self.nodes(at)
        form = {
            "knownNodes": ",".join(node["otpNode"] for node in nodes.values()),
            "ejectedNodes": ",".join(nodes[self[number].address]["otpNode"] for number in eject),
        }
        reply = self[at].admin.post("/controller/rebalance", form)
        if reply.status != 200:
            raise RuntimeError(f"rebalance: {reply!r}")

    def rebalance(self, eject=(), at=0, seconds=60):
        """Rebalances; returns the seconds it took."""
        began = time.monotonic()
        self.start_rebalance(eject, at)
        self.await_rebalance(at, seconds)
        return time.monotonic() - began

    def await_rebalance(self, at=0, seconds=60):
        try:
            wait_until(
                lambda: self.progress(at)["status"] == "none", seconds, "the rebalance ends"
            )
        except TimeoutError as timeout:
            # The reason is the node's own report, as a user would see it.
            raise TimeoutError(f"{timeout}; {self.rebalance_task(at)}") from None
        failure = self.progress(at).get("errorMessage")
        if failure:
            raise RuntimeError(f"rebalance: {failure}")

    def fail_over(self, number, at=0, path="failOver", **more):
        form = {"otpNode": self.name(number, at), **more}
        return self[at].admin.post(f"/controller/{path}", form, seconds=60)

    def take_back(self, number, recovery="full", at=0):
        """Orders the recovery of a failed-over node; a rebalance carries it out."""
        path, form = "setRecoveryType", {"otpNode": self.name(number, at)}
        if recovery == "reAddNode":
            path = recovery
        else:
            form["recoveryType"] = recovery
        reply = self[at].admin.post(f"/controller/{path}", form)
        if reply.status != 200:
            raise RuntimeError(f"{path}: {reply!r}")

    def set_auto_failover(self, timeout=1, at=0, max_count=10):
        form = {"enabled": "true", "timeout": timeout, "maxCount": max_count}
        reply = self[at].admin.post("/settings/autoFailover", form)
        if reply.status != 200:
            raise RuntimeError(f"autoFailover: {reply!r}")

    def await_healthy(self, at=0, seconds=30):
        """Waits until all known nodes are members, and every bucket serves on them."""

        def is_healthy():
            return all(
                node["clusterMembership"] == "active" and node["status"] == "healthy"
                for node in self.nodes(at).values()
            )

        wait_until(is_healthy, seconds, "all nodes are healthy")


def made(members, buckets=(), **settings):
    """A rebalanced cluster of a number of nodes, or of the given ones, with buckets."""
    cluster = Cluster(members)
    try:
        for number in range(1, len(cluster)):
            cluster.add(number)
        if len(cluster) > 1:
            cluster.rebalance()
        for bucket in buckets:
            cluster[0].create_bucket(bucket, **{"replicaNumber": 1, "numVBuckets": 64, **settings})
    except BaseException:
        print(cluster.logs())
        cluster.close()
        raise
    return cluster
