"""The cost of an idle cluster: the time to start it, and its memory."""

import os
import statistics
import subprocess
import tempfile
import time

from comparison.figures import figure
from comparison.servers import BUCKET, BUILD, Failure

from .members import Cluster, own_port

LAUNCHER = os.path.join(BUILD, "divan-cluster")


class Checkout:
    """A separate checkout for the launcher, which remembers one cluster in each."""

    def __init__(self, directory):
        self.directory = directory
        programs = os.path.join(directory, ".build", "release")
        os.makedirs(programs)
        os.symlink(os.path.join(BUILD, "divan-server"), os.path.join(programs, "divan-server"))
        # The launcher's ports are 11210, 8091, 8092 and 21100, and 100 more for each node.
        self.offset = own_port() - 11_210

    def run(self, *arguments):
        environment = dict(os.environ, DIVAN_CHECKOUT=self.directory)
        done = subprocess.run([LAUNCHER, *arguments], env=environment, capture_output=True,
                              text=True, timeout=90)
        if done.returncode != 0:
            raise Failure(f"cluster/{arguments[0]}: {done.stdout}{done.stderr}")


def start(plan):
    rounds = 3 if plan.quick else 7
    times = []
    for number in range(rounds):
        plan.say(f"cluster/start --nodes 3, {number + 1} of {rounds}")
        with tempfile.TemporaryDirectory(prefix="divan-start-") as directory:
            checkout = Checkout(directory)
            try:
                began = time.monotonic()
                checkout.run("start", "--nodes", "3", "--bucket", f"{BUCKET}:100:1",
                             "--port-offset", str(checkout.offset))
                times.append(time.monotonic() - began)
            finally:
                checkout.run("stop", "--patience", "10")
    return [figure("cluster/start --nodes 3 until a bucket is served", statistics.median(times),
                   "s", 3, note=(
        f"median of {rounds}, at most {max(times):.2f} s; three processes, joined, rebalanced, a "
        "bucket of 1 024 vBuckets with a replica, asked for on each node's data port"))]


def memory(plan):
    """A member and a lone node, each with the same bucket and nothing in it."""
    seconds = 2 if plan.quick else 8
    plan.say("memory: a lone node")
    with Cluster(1, joined=1) as alone:
        alone.create(0)
        time.sleep(seconds)
        lone = alone.first.anonymous_bytes()
    plan.say("memory: three members")
    with Cluster(3) as cluster:
        cluster.create(1)
        time.sleep(seconds)
        members = [member.anonymous_bytes() for member in cluster.members]
    more = [(each - lone) / 1e6 for each in members]
    every = ", ".join(f"{each / 1e6:.1f}" for each in members)
    return [figure("a member of an idle cluster of 3, more private memory than a lone node",
                   max(more), "MB", 20, note=(
        f"the most of three ({every} MB) against {lone / 1e6:.1f} MB; RssAnon, {seconds} s after "
        "one empty bucket was made, with a replica in the cluster"))]
