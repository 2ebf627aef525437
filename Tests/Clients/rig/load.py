"""Writers that load a node, and record its answers."""

import struct
import threading

from .wire import Closed, Op, frame, vbucket_of


class Writer(threading.Thread):
    """Writes to keys of its own, one after the other, until it is stopped or cut off.

    `acknowledged` has, for each key, every version that was answered with success: number, CAS,
    seqno. What was on its way when the connection broke is in `unanswered`.
    """

    def __init__(self, node, bucket, number, keys=200, depth=16):
        super().__init__(daemon=True)
        self.connection = node.connect(bucket)
        self.number = number
        self.keys = [f"writer-{number}-{key}".encode() for key in range(keys)]
        self.depth = depth
        self.acknowledged = {key: [] for key in self.keys}
        self.unanswered = {key: set() for key in self.keys}
        self.uuids = {}
        self.putbacks = 0
        self.stopping = False
        self.failure = None

    @staticmethod
    def value(key, version):
        return b'{"key":"%s","version":%d,"pad":"%s"}' % (key, version, b"x" * (version % 700))

    def run(self):
        version = 0
        try:
            while not self.stopping:
                batch = []
                for _ in range(self.depth):
                    key = self.keys[version % len(self.keys)]
                    batch.append((key, version))
                    self.unanswered[key].add(version)
                    version += 1
                self.connection.send(b"".join(self.request(*each) for each in batch))
                for key, each in batch:
                    self.note(key, each, self.connection.receive())
        except (Closed, OSError):
            pass
        except Exception as failure:  # Reported by the test that owns this thread.
            self.failure = failure
        finally:
            self.connection.close()

    def request(self, key, version):
        place = vbucket_of(key, self.connection.vbuckets)
        extras = struct.pack(">II", 0, 0)
        return frame(Op.SET, key, extras, self.value(key, version), vbucket=place)

    def note(self, key, version, reply):
        self.unanswered[key].discard(version)
        if reply.status == 0x86:
            self.putbacks += 1
            return
        if reply.status != 0:
            raise RuntimeError(f"SET {key} was answered {reply!r}")
        uuid, seqno = reply.token
        self.uuids[vbucket_of(key, self.connection.vbuckets)] = uuid
        self.acknowledged[key].append((version, reply.cas, seqno))


class Observer(threading.Thread):
    """Polls the persisted seqno of each vBucket."""

    def __init__(self, node, bucket, writers):
        super().__init__(daemon=True)
        self.connection = node.connect(bucket)
        self.writers = writers
        self.persisted = {}
        self.stopping = False

    def run(self):
        try:
            while not self.stopping:
                for writer in self.writers:
                    for vbucket, uuid in list(writer.uuids.items()):
                        persisted, _ = self.connection.observe_seqno(vbucket, uuid)
                        self.persisted[vbucket] = max(persisted, self.persisted.get(vbucket, 0))
        except (Closed, OSError):
            pass
        finally:
            self.connection.close()


def ingest(connection, documents, depth=512):
    """Stores (key, value) pairs, with retries if memory is short; returns the number of retries."""
    import time

    putbacks = 0
    waiting = iter(documents)
    again = []
    extras = bytes(8)
    while True:
        batch = again
        again = []
        for document in waiting:
            batch.append(document)
            if len(batch) >= depth:
                break
        if not batch:
            return putbacks
        connection.send(
            b"".join(
                frame(Op.SET, key, extras, value, vbucket=vbucket_of(key, connection.vbuckets))
                for key, value in batch
            )
        )
        for document in batch:
            status = connection.receive().status
            if status == 0x86:
                again.append(document)
            elif status != 0:
                raise RuntimeError(f"SET {document[0]} was answered {status:#x}")
        putbacks += len(again)
        if again:
            time.sleep(0.02)


def fetch(connection, keys, depth=512):
    """The answers to GETs, in order."""
    for start in range(0, len(keys), depth):
        part = keys[start : start + depth]
        connection.send(
            b"".join(
                frame(Op.GET, key, vbucket=vbucket_of(key, connection.vbuckets)) for key in part
            )
        )
        for key in part:
            yield key, connection.receive()
