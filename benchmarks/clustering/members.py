"""Nodes on this machine that become one cluster; each is always ended by its process number."""

import itertools
import json
import os
import signal
import socket
import time

from comparison.servers import BUCKET, BUILD, Divan, Failure

# Below the ephemeral ports, so that no outgoing connection uses them between two starts.
PORTS = itertools.count(int(os.environ.get("DIVAN_PORTS", 28_000)))


def own_port():
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Failure("no port is free")


def wait_until(condition, seconds, what, pause=0.02):
    """Polls until there is a valid answer, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failure(f"timed out after {seconds} s: {what}")
        time.sleep(pause)


class Member(Divan):
    """A node with separate ports, not pinned to a core."""

    def __init__(self, kind="persistent"):
        super().__init__(None, kind)
        self.port, self.admin, self.plain = own_port(), own_port(), own_port()
        self.views, self.peer = own_port(), own_port()
        self.address = f"127.0.0.1:{self.admin}"

    def command(self):
        return [
            os.path.join(BUILD, "divan-server"), "--data", os.path.join(self.directory, "data"),
            "--kv-port", str(self.port), "--admin-port", str(self.admin),
            "--views-port", str(self.views), "--peer-port", str(self.peer),
            "--memcached-port", str(self.plain), "--memcached-bucket", BUCKET,
            "--log-level", "warning",
        ]

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def get(self, path):
        return json.loads(self.request(path))

    def processor_seconds(self):
        """Processor time of all its threads since it started."""
        with open(f"/proc/{self.pid}/stat") as line:
            fields = line.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        """Kills the node (SIGKILL); returns the time, in nanoseconds of the driver's clock."""
        began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.stop(signal.SIGKILL)
        return began


class Cluster:
    """Starts `count` nodes, of which the first `joined` form one cluster."""

    def __init__(self, count, joined=None, kind="persistent", quota=512):
        self.members = [Member(kind) for _ in range(count)]
        self.quota = quota
        try:
            for member in self.members:
                member.start()
            first = self.members[0]
            first.quota = quota
            first.provision(buckets=())
            for member in self.members[1:joined]:
                self.add(member)
            if joined != 1:
                self.rebalance()
        except BaseException:
            self.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for member in self.members:
            if member.is_running:
                member.process.kill()
        for member in self.members:
            member.remove()

    @property
    def first(self):
        for member in self.members:
            if member.is_running:
                return member
        raise Failure("no node runs")

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def names(self):
        """The names of the nodes in the cluster, by address."""
        return {
            node["hostname"]: node["otpNode"] for node in self.first.get("/pools/default")["nodes"]
        }

    def add(self, member):
        self.first.request("/controller/addNode", {
            "hostname": member.address, "user": member.user, "password": member.password,
            "services": "kv",
        })

    def begin_rebalance(self, eject=()):
        names = self.names()
        self.first.request("/controller/rebalance", {
            "knownNodes": ",".join(names.values()),
            "ejectedNodes": ",".join(names[member.address] for member in eject),
        })

    def await_rebalance(self, seconds=180):
        def is_over():
            progress = self.first.get("/pools/default/rebalanceProgress")
            return progress if progress["status"] == "none" else None

        failure = wait_until(is_over, seconds, "the rebalance is over").get("errorMessage")
        if failure:
            raise Failure(f"rebalance: {failure}")

    def rebalance(self, eject=(), seconds=180):
        """Rebalances; returns the seconds it took."""
        began = time.monotonic()
        self.begin_rebalance(eject)
        self.await_rebalance(seconds)
        return time.monotonic() - began

    def fail_over_gracefully(self, member, seconds=60):
        began = time.monotonic()
        name = self.names()[member.address]
        other = next(each for each in self.members if each is not member and each.is_running)
        other.request("/controller/startGracefulFailover", {"otpNode": name})
        self.await_rebalance(seconds)
        return time.monotonic() - began

    def fail_over_automatically(self, seconds):
        self.first.request("/settings/autoFailover", {
            "enabled": "true", "timeout": str(seconds), "maxCount": "10",
        })

    def create(self, replicas, megabytes=100, vbuckets=None, wanted=None):
        """Creates the bucket, and waits until it has `replicas`; `wanted` are those that it has once
        there are enough nodes."""
        first = self.first
        form = {
            "name": BUCKET, "ramQuotaMB": str(megabytes), "replicaNumber": str(wanted or replicas),
            "bucketType": "couchbase" if first.kind == "persistent" else "ephemeral",
        }
        if vbuckets:
            form["numVBuckets"] = str(vbuckets)
        first.request("/pools/default/buckets", form)
        wait_until(lambda: self.is_served(replicas), 30, f"bucket {BUCKET} is served")

    def is_served(self, replicas):
        """Whether every node is healthy, and the map names a node for every copy."""
        found = self.first.bucket()
        nodes, rows = found.get("nodes", []), found["vBucketServerMap"]["vBucketMap"]
        return (
            bool(nodes) and all(node["status"] == "healthy" for node in nodes)
            and bool(rows)
            and all(len(row) > replicas and -1 not in row[:replicas + 1] for row in rows)
        )

    def copies(self):
        """The data ports of the nodes with a copy, active first, by vBucket."""
        found = self.first.bucket()["vBucketServerMap"]
        ports = [int(server.rsplit(":", 1)[1]) for server in found["serverList"]]
        return [[ports[place] for place in row if place >= 0] for row in found["vBucketMap"]]

    def await_persisted(self, seconds=60):
        """Until replicas have all changes, and all copies are on disk."""
        names = ("kv_ep_queue_size{", "kv_replication_backlog_items{")

        def is_done():
            lines = [
                line for member in self.members if member.is_running
                for line in member.request("/metrics").decode().splitlines()
                if line.startswith(names) and BUCKET in line
            ]
            return bool(lines) and all(float(line.split()[-1]) == 0 for line in lines)

        wait_until(is_done, seconds, "everything is on disk", pause=0.05)

    def processor_seconds(self):
        return sum(each.processor_seconds() for each in self.members if each.is_running)


class Usage:
    """Processor time of a cluster's nodes and of the whole machine, from creation until `end`."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.nodes = cluster.processor_seconds()
        self.machine = machine_seconds()
        self.began = time.monotonic()

    def end(self):
        self.seconds = time.monotonic() - self.began
        self.nodes = self.cluster.processor_seconds() - self.nodes
        self.machine = machine_seconds() - self.machine
        return self

    def __str__(self):
        return (f"{self.nodes / self.seconds:.1f} cores busy with the nodes, "
                f"{self.machine / self.seconds:.1f} of {os.cpu_count()} with everything")


def machine_seconds():
    """Seconds of busy time of all processors since boot: without idle time and disk waits."""
    with open("/proc/stat") as lines:
        fields = [int(field) for field in lines.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def new_copies(before, after):
    """The number of copies of vBuckets on nodes that had none before."""
    return sum(len(set(now) - set(then)) for then, now in zip(before, after, strict=True))
