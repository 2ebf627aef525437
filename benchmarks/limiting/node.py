"""A node that is filled up to a limit, and what it costs then."""

import base64
import os
import time
import urllib.parse
import urllib.request

from comparison.servers import Divan, Failure
from viewing.node import ViewConnection

TICKS = os.sysconf("SC_CLK_TCK")
# An index without work rests after a minute, so that it has all of its cost until then.
SETTLED_SECONDS, SETTLED_SECONDS_MAX = 10, 100


class LimitNode(Divan):
    """One node without a bucket, on all cores."""

    def __init__(self, quota=2048):
        super().__init__(None, "persistent", megabytes=100, quota=quota)

    def __enter__(self):
        try:
            self.start()
            self.provision(buckets=())
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def connection(self):
        return ViewConnection(self.views)

    def put_user(self, name):
        form = {"password": "a long password", "roles": "data_reader[*]"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.admin}/settings/rbac/users/local/{name}",
            data=urllib.parse.urlencode(form).encode(), method="PUT")
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def counts(self):
        """Threads and descriptors."""
        folder = f"/proc/{self.pid}"
        return len(os.listdir(f"{folder}/task")), len(os.listdir(f"{folder}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def await_settled(self):
        """Waits until memory and descriptors do not change any more; returns the largest memory seen."""
        began = since = time.monotonic()
        last, most = None, 0
        while time.monotonic() - since < SETTLED_SECONDS:
            memory = self.anonymous_bytes()
            most = max(most, memory)
            now = (self.counts()[1], memory >> 20)
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() - began > SETTLED_SECONDS_MAX:
                break
            time.sleep(0.2)
        return most

    def idle_share(self, seconds):
        """The processor time of an idle node, as a share of a core."""
        began, used = time.monotonic(), self.cpu_seconds()
        time.sleep(seconds)
        return (self.cpu_seconds() - used) / (time.monotonic() - began)

    def stop_seconds(self):
        began = time.monotonic()
        self.stop()
        return time.monotonic() - began


def measure(count, fill, idle_seconds, quota=2048, prepare=None):
    """Fills a node, restarts it, and stops it; `fill` has the node and the number of objects.

    Returns the figures, each of the node with `count` objects; memory is also that of an empty node.
    """
    with LimitNode(quota) as node:
        if prepare:
            prepare(node)
        node.await_settled()
        empty = node.anonymous_bytes()
        before = node.counts()
        began = time.monotonic()
        kept = fill(node, count)
        found = {"count": count, "fill": time.monotonic() - began}
        found["peak"] = node.await_settled() - empty
        found["memory"] = node.anonymous_bytes() - empty
        threads, descriptors = node.counts()
        found["threads"], found["descriptors"] = threads - before[0], descriptors - before[1]
        found["idle"] = node.idle_share(idle_seconds)
        found["stop"] = node.stop_seconds()
        for each in kept or ():
            each.close()
        found["start"] = node.start()
        found["restarted"] = node.await_settled() - empty
        found["restop"] = node.stop_seconds()
        return found


def require(status, wanted, body, what):
    if status != wanted:
        raise Failure(f"{what} was answered {status}: {body[:300].decode(errors='replace')}")
