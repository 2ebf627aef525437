"""A consumer of the change protocol (DCP), byte by byte (docs/changes.md)."""

import struct

from rig.wire import FLEX_RESPONSE, REQUEST, RESPONSE, Reply, Status, frame

OPEN, ADD_STREAM, CLOSE_STREAM, STREAM_REQUEST, FAILOVER_LOG = range(0x50, 0x55)
STREAM_END, SNAPSHOT, MUTATION, DELETION, EXPIRATION = range(0x55, 0x5A)
NOOP, BUFFER_ACK, CONTROL = 0x5C, 0x5D, 0x5E
ALL_SEQNOS, GET_FAILOVER_LOG = 0x48, 0x96
CHANGES = (MUTATION, DELETION, EXPIRATION)
FOREVER = (1 << 64) - 1
ENDS = {0: "finished", 1: "closed", 2: "stateChanged", 4: "slow", 6: "rollback"}


class Message(Reply):
    """A message of the producer; `status` of a reply is the vBucket of a request."""

    @property
    def vbucket(self):
        return self.status

    @property
    def is_request(self):
        return self.magic == REQUEST

    @property
    def seqno(self):
        return int.from_bytes(self.extras[:8], "big")

    @property
    def revision(self):
        return int.from_bytes(self.extras[8:16], "big")

    @property
    def snapshot(self):
        """Start and end of a marker of version 1."""
        return struct.unpack(">QQ", self.extras[:16])

    @property
    def end(self):
        return ENDS[int.from_bytes(self.extras, "big")]


class Position:
    """Where a consumer is in one vBucket."""

    def __init__(self, uuid=0, seqno=0):
        self.uuid, self.seqno = uuid, seqno
        self.snapshot = (seqno, seqno)


class Consumer:
    """A connection that has sent DCP_OPEN."""

    def __init__(self, connection, name="tests", flags=1):
        self.connection = connection
        self.opened = self.call(OPEN, name, struct.pack(">II", 0, flags))
        self.acknowledges = 0

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Requests. Messages of streams that arrive before a response are kept.

    kept = ()

    def call(self, op, key=b"", extras=b"", value=b"", vbucket=0, opaque=0xC0):
        self.connection.send(
            frame(op, key, extras, value, vbucket=vbucket, opaque=opaque)
        )
        while True:
            message = self._receive()
            is_response = message.magic in (RESPONSE, FLEX_RESPONSE)
            if is_response and message.op == op and message.opaque == opaque:
                return message
            self.kept = (*self.kept, message)

    def control(self, name, value):
        return self.call(CONTROL, name, value=str(value).encode()).status

    def request(self, vbucket, position=None, end=FOREVER, flags=0, opaque=None, value=b""):
        """Sends a stream request; the opaque is the vBucket's number unless it is given."""
        at = position or Position()
        extras = struct.pack(
            ">IIQQQQQ", flags, 0, at.seqno, end, at.uuid, at.snapshot[0], at.snapshot[1]
        )
        opaque = vbucket if opaque is None else opaque
        return self.call(STREAM_REQUEST, b"", extras, value, vbucket=vbucket, opaque=opaque)

    def close_stream(self, vbucket):
        return self.call(CLOSE_STREAM, vbucket=vbucket).status

    def failover_log(self, vbucket, op=FAILOVER_LOG):
        return log(self.call(op, vbucket=vbucket).value)

    def acknowledge(self, count):
        self.connection.send(frame(BUFFER_ACK, extras=count.to_bytes(4, "big")))

    def answer_noop(self, message, magic=RESPONSE):
        self.connection.send(frame(NOOP, opaque=message.opaque, magic=magic))

    # Messages

    def _receive(self):
        # A timeout inside a message loses nothing: the message is taken as a whole.
        self.connection.await_bytes(24)
        count = 24 + int.from_bytes(self.connection.buffer[8:12], "big")
        self.connection.await_bytes(count)
        self.last_bytes = count
        whole = self.connection._take(count)
        return Message(whole[:24], whole[24:])

    def receive(self):
        """The next message of a stream; answers no-ops."""
        while True:
            if self.kept:
                message, *rest = self.kept
                self.kept = tuple(rest)
            else:
                message = self._receive()
                if self.acknowledges:
                    self.acknowledge(self.last_bytes)
            if message.op != NOOP:
                return message
            self.answer_noop(message)

    def read(self, streams, until):
        """Reads until `until(state)` holds; returns the state: what each stream has sent.

        Checks what every stream has to keep: changes lie inside the announced snapshot, and their
        seqnos rise.
        """
        state = State(streams)
        while not until(state):
            state.take(self.receive())
        return state


class State:
    """What the streams have sent: documents by key, and positions by vBucket."""

    def __init__(self, positions):
        self.positions = positions
        self.documents, self.changes, self.ends = {}, [], {}

    def take(self, message):
        assert message.is_request, message
        at = self.positions[message.vbucket]
        assert message.opaque == message.vbucket
        if message.op == SNAPSHOT:
            start, end = message.snapshot
            assert start <= end and end > at.seqno and start >= at.seqno, (start, end, at.seqno)
            at.snapshot = (start, end)
        elif message.op in CHANGES:
            assert at.seqno < message.seqno <= at.snapshot[1], (at.seqno, message.seqno, at.snapshot)
            at.seqno = message.seqno
            # At the end of a snapshot a consumer has all of it.
            if at.seqno == at.snapshot[1]:
                at.snapshot = (at.seqno, at.seqno)
            self.changes.append(message)
            if message.op == MUTATION:
                self.documents[message.key] = message.value
            else:
                self.documents.pop(message.key, None)
        elif message.op == STREAM_END:
            self.ends[message.vbucket] = message.end
        else:
            raise AssertionError(f"an unexpected message: {message!r}")


def log(value):
    """The entries of a failover log, the newest first."""
    assert value and len(value) % 16 == 0, value
    return [struct.unpack(">QQ", value[at : at + 16]) for at in range(0, len(value), 16)]


def is_success(reply):
    return reply.status == Status.SUCCESS
