"""The data port, byte by byte: memcached binary frames in Couchbase's dialect."""

import base64
import hashlib
import hmac
import os
import socket
import struct
import zlib

HEADER = struct.Struct(">BBHBBHIIQ")
REQUEST, RESPONSE, FLEX_REQUEST, FLEX_RESPONSE = 0x80, 0x81, 0x08, 0x18


class Op:
    GET, SET, ADD, REPLACE, DELETE, INCR, DECR, QUIT, FLUSH = range(9)
    GETQ, NOOP, VERSION, GETK, GETKQ, APPEND, PREPEND, STAT = range(0x09, 0x11)
    SETQ, ADDQ, REPLACEQ, DELETEQ, INCRQ, DECRQ, QUITQ, FLUSHQ = range(0x11, 0x19)
    APPENDQ, PREPENDQ = 0x19, 0x1A
    TOUCH, GAT, GATQ, HELLO, SASL_LIST, SASL_AUTH, SASL_STEP = range(0x1C, 0x23)
    GET_REPLICA, SELECT_BUCKET, OBSERVE_SEQNO, OBSERVE = 0x83, 0x89, 0x91, 0x92
    GETL, UNLOCK, GET_META, GET_CLUSTER_CONFIG, GET_ERROR_MAP = 0x94, 0x95, 0xA0, 0xB5, 0xFE
    GET_COLLECTION_ID, SUBDOC_GET, SUBDOC_MULTI_LOOKUP = 0xBB, 0xC5, 0xD0


class Status:
    SUCCESS, NOT_FOUND, EXISTS, TOO_BIG, INVALID, NOT_STORED, DELTA_BAD = range(7)
    NOT_MY_VBUCKET, NO_BUCKET, LOCKED, NOT_LOCKED = 0x07, 0x08, 0x09, 0x0E
    AUTH_ERROR, AUTH_CONTINUE, ACCESS = 0x20, 0x21, 0x24
    UNKNOWN_FRAME, UNKNOWN_COMMAND, NO_MEMORY, NOT_SUPPORTED = 0x80, 0x81, 0x82, 0x83
    INTERNAL, BUSY, TEMPORARY, XATTR_INVALID = 0x84, 0x85, 0x86, 0x87
    DURABILITY_INVALID, DURABILITY_IMPOSSIBLE, SYNC_WRITE_IN_PROGRESS = 0xA0, 0xA1, 0xA2
    SYNC_WRITE_AMBIGUOUS, SYNC_WRITE_RECOMMITTING = 0xA3, 0xA4


class Feature:
    TLS, TCP_NODELAY, MUTATION_SEQNO, TCP_DELAY, XATTR, XERROR, SELECT_BUCKET = range(2, 9)
    SNAPPY, JSON, DUPLEX, MAP_PUSH, UNORDERED, TRACING, ALT_REQUEST = range(0x0A, 0x11)
    SYNC_REPLICATION, COLLECTIONS, SNAPPY_EVERYWHERE, PRESERVE_TTL = range(0x11, 0x15)
    CREATE_AS_DELETED, SUBDOC_REPLICA_READ = 0x17, 0x1C
    CONFIG_WITH_VERSION, DEDUPE_NMVB, MAP_PUSH_BRIEF, SUBDOC_BINARY_XATTR = 0x1D, 0x1E, 0x1F, 0x21


USUAL_FEATURES = (
    Feature.TCP_NODELAY,
    Feature.MUTATION_SEQNO,
    Feature.XERROR,
    Feature.SELECT_BUCKET,
    Feature.JSON,
    Feature.ALT_REQUEST,
)


def vbucket_of(key, count=1024):
    """The vBucket that a key belongs to, by a checksum of the key."""
    return (zlib.crc32(key) >> 16 & 0x7FFF) % count


class Reply:
    """One answer, taken apart."""

    def __init__(self, header, body):
        magic, op, keys, extras, datatype, status, _, opaque, cas = HEADER.unpack(header)
        frames, keys = (keys >> 8, keys & 0xFF) if magic == FLEX_RESPONSE else (0, keys)
        self.magic, self.op, self.datatype = magic, op, datatype
        self.status, self.opaque, self.cas = status, opaque, cas
        self.frames = body[:frames]
        self.extras = body[frames : frames + extras]
        self.key = body[frames + extras : frames + extras + keys]
        self.value = body[frames + extras + keys :]

    @property
    def flags(self):
        return int.from_bytes(self.extras[:4], "big")

    @property
    def token(self):
        """The mutation token: vBucket UUID and seqno."""
        return struct.unpack(">QQ", self.extras)

    @property
    def number(self):
        return int.from_bytes(self.value, "big")

    def __repr__(self):
        return f"<{self.op:#x} status {self.status:#x} {self.extras!r} {self.value[:80]!r}>"


def frame(
    op,
    key=b"",
    extras=b"",
    value=b"",
    cas=0,
    vbucket=0,
    opaque=0,
    datatype=0,
    frames=b"",
    magic=None,
):
    """A request's bytes."""
    key = key.encode() if isinstance(key, str) else key
    magic = magic or (FLEX_REQUEST if frames else REQUEST)
    keys = len(frames) << 8 | len(key) if magic == FLEX_REQUEST else len(key)
    body = frames + extras + key + value
    return (
        HEADER.pack(magic, op, keys, len(extras), datatype, vbucket, len(body), opaque, cas) + body
    )


class Closed(Exception):
    """The server has ended the connection."""


class Connection:
    def __init__(self, port, seconds=15, host="127.0.0.1", source=None, context=None):
        """`source` is the address of the client, if it matters; `context` that of the module `ssl`, for TLS."""
        own = source and (source, 0)
        self.socket = socket.create_connection((host, port), seconds, source_address=own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self.buffer = bytearray()
        self.vbuckets = 1024
        self.features = ()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Bytes

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next answer."""
        header = self._take(24)
        return Reply(header, self._take(int.from_bytes(header[8:12], "big")))

    def await_bytes(self, count):
        """Waits until the buffer has this many bytes."""
        while len(self.buffer) < count:
            part = self.socket.recv(1 << 18)
            if not part:
                raise Closed(f"with {len(self.buffer)} of {count} bytes received")
            self.buffer += part

    def _take(self, count):
        self.await_bytes(count)
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def is_closed_by_server(self):
        """Reads until the server closes the connection; raises a timeout if it does not."""
        try:
            while self.socket.recv(1 << 18):
                pass
        except ConnectionError:
            pass
        return True

    # Commands

    def call(self, op, key=b"", extras=b"", value=b"", **fields):
        """Sends a request and waits for the one answer to it."""
        key = key.encode() if isinstance(key, str) else key
        fields.setdefault("vbucket", vbucket_of(key, self.vbuckets) if key else 0)
        fields.setdefault("opaque", 0xDEC0DE)
        self.send(frame(op, key, extras, value, **fields))
        return self.receive()

    def hello(self, features, agent=b'{"a":"divan-tests","i":"0000000000000001/0000000000000001"}'):
        value = b"".join(feature.to_bytes(2, "big") for feature in features)
        reply = self.call(Op.HELLO, agent, value=value, vbucket=0)
        codes = struct.unpack(f">{len(reply.value) // 2}H", reply.value)
        self.features = codes
        return codes

    def select_bucket(self, name):
        return self.call(Op.SELECT_BUCKET, name, vbucket=0)

    def plain(self, user, password):
        value = b"\0" + user.encode() + b"\0" + password.encode()
        return self.call(Op.SASL_AUTH, b"PLAIN", value=value, vbucket=0)

    def log_in(self, user, password, mechanism="SCRAM-SHA512"):
        """The SCRAM dialogue of RFC 5802; raises if the server does not authenticate itself."""
        algorithm = {
            "SCRAM-SHA512": "sha512",
            "SCRAM-SHA256": "sha256",
            "SCRAM-SHA1": "sha1",
        }[mechanism]
        name = user.replace("=", "=3D").replace(",", "=2C")
        nonce = base64.b64encode(os.urandom(18)).decode()
        first = f"n={name},r={nonce}"
        reply = self.call(Op.SASL_AUTH, mechanism, value=f"n,,{first}".encode(), vbucket=0)
        if reply.status != Status.AUTH_CONTINUE:
            return reply
        challenge = reply.value.decode()
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        if list(parts) != ["r", "s", "i"] or not parts["r"].startswith(nonce):
            raise ValueError(f"not a challenge: {challenge}")

        def sign(secret, text):
            return hmac.new(secret, text, algorithm).digest()

        salted = hashlib.pbkdf2_hmac(
            algorithm, password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
        )
        client = sign(salted, b"Client Key")
        final = f"c=biws,r={parts['r']}"
        message = f"{first},{challenge},{final}".encode()
        signature = sign(hashlib.new(algorithm, client).digest(), message)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature))).decode()
        reply = self.call(Op.SASL_STEP, mechanism, value=f"{final},p={proof}".encode(), vbucket=0)
        if reply.status == 0:
            expected = base64.b64encode(sign(sign(salted, b"Server Key"), message)).decode()
            if reply.value.decode() != f"v={expected}":
                raise ValueError("the server does not know the password either")
        return reply

    def get(self, key, **fields):
        return self.call(Op.GET, key, **fields)

    def set(self, key, value, flags=0, expiry=0, op=Op.SET, **fields):
        return self.call(op, key, struct.pack(">II", flags, expiry), value, **fields)

    def counter(self, op, key, delta=1, initial=0, expiry=0, **fields):
        return self.call(op, key, struct.pack(">QQI", delta, initial, expiry), **fields)

    def observe_seqno(self, vbucket, uuid):
        """Persisted and current seqno of a vBucket, as its history `uuid` knows them."""
        reply = self.call(Op.OBSERVE_SEQNO, value=uuid.to_bytes(8, "big"), vbucket=vbucket)
        if reply.status != 0:
            raise LookupError(f"OBSERVE_SEQNO: {reply!r}")
        return struct.unpack(">QQ", reply.value[11:27])

    def stat(self, group="", **fields):
        """All statistics of a group."""
        self.send(frame(Op.STAT, group, opaque=7, **fields))
        found = {}
        while True:
            reply = self.receive()
            if reply.status != 0:
                raise LookupError(f"STAT {group}: {reply!r}")
            if not reply.key and not reply.value:
                return found
            found[reply.key.decode()] = reply.value.decode()
