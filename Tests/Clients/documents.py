"""Documents written and read by the map of a node, and checks of their copies."""

import time

from rig.node import wait_until
from rig.wire import Op, Status, vbucket_of


class Documents:
    """Documents written by the map; only a temporary failure is retried, as every client does."""

    def __init__(self, cluster, bucket):
        self.cluster = cluster
        self.bucket = bucket
        self.written = {}

    def owners(self, at):
        """The number of the active node in a node's map, by vBucket."""
        return [row[0] for row in self.cluster.vbucket_map(self.bucket, at)]

    def of(self, number, at):
        """The keys of the documents that a node owns."""
        owners = self.owners(at)
        return [key for key in self.written if owners[vbucket_of(key, len(owners))] == number]

    def write(self, name, count, at):
        """Writes documents; every write must be acknowledged."""
        refused = self.try_write(name, count, at)
        assert not refused, refused

    def try_write(self, name, count, at, value_of=None):
        """Writes documents; returns the status of refused writes by key."""
        owners = self.owners(at)
        refused = {}
        with Doors(self.cluster, self.bucket) as doors:
            for number in range(count):
                key = b"%s-%d" % (name.encode(), number)
                value = value_of(number) if value_of else b"%d" % time.monotonic_ns()
                door = doors[owners[vbucket_of(key, len(owners))]]
                reply = door.set(key, value)
                # A file of the vBucket may have persisted nothing for two seconds: the disk is shared.
                deadline = time.monotonic() + 20
                while reply.status == Status.TEMPORARY and time.monotonic() < deadline:
                    time.sleep(0.05)
                    reply = door.set(key, value)
                if reply.status == Status.SUCCESS:
                    self.written[key] = value
                else:
                    refused[key] = reply.status
        return refused

    def wrong(self, at, replicas=False):
        """Documents that differ from the written ones, in active or replica copies."""
        rows = self.cluster.vbucket_map(self.bucket, at)
        wrong = {}
        with Doors(self.cluster, self.bucket) as doors:
            for key, value in self.written.items():
                row = rows[vbucket_of(key, len(rows))]
                if replicas and None in row:
                    wrong[key] = row
                    continue
                op, places = (Op.GET_REPLICA, row[1:]) if replicas else (Op.GET, row[:1])
                for place in places:
                    reply = doors[place].call(op, key)
                    if reply.status != Status.SUCCESS or reply.value != value:
                        wrong[key] = (row, place, hex(reply.status), reply.value[:40])
        return wrong

    def await_copies(self, at):
        wait_until(lambda: not self.wrong(at, replicas=True), 10, "replicas have everything")


class Doors:
    """A connection to each node, made when it is needed."""

    def __init__(self, cluster, bucket):
        self.cluster = cluster
        self.bucket = bucket
        self.open = {}

    def __getitem__(self, number):
        if number not in self.open:
            self.open[number] = self.cluster[number].connect(self.bucket, seconds=5)
        return self.open[number]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.open.values():
            connection.close()
