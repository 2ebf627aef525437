"""The port for other nodes, for a client that knows the protocol and perhaps has a node's directory."""

import socket
import sqlite3
import ssl
import struct
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

# Kinds of messages, and reasons of refusals.
HELLO, ANSWER, REFUSAL = 1, 2, 4
WRONG_KEY, REMOVED, NOT_EXPECTED, CONNECTED = 1, 3, 5, 8
MAIN, BULK, JOIN, EPOCH = 1, 2, 3, 4
VERSION = 2
# What precedes the 32 bytes of an Ed25519 key in PKCS 8.
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")


def text(reader):
    return reader.take(reader.number()).decode()


class Reader:
    """Bytes from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]

    def number(self):
        """A LEB128 number."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


class Identity:
    """What a data directory says of its node, with the private key."""

    def __init__(self, directory):
        path = Path(directory) / "control.sqlite"
        with sqlite3.connect(path) as store:
            (fact,) = store.execute("SELECT bytes FROM fact WHERE name = 'identity'").fetchone()
        reader = Reader(fact)
        assert reader.take(1) == b"\x03"
        self.uuid = text(reader)
        self.number = reader.number()
        self.cluster = text(reader)
        (self.group,) = struct.unpack(">Q", reader.take(8))
        self.epoch = reader.number()
        self.seed = reader.take(reader.number())

    def claim(self, number=None):
        names = b"".join(bytes([len(each)]) + each.encode() for each in (self.uuid, self.cluster))
        number = self.number if number is None else number
        record = struct.pack(">H", number) + names + struct.pack(">QQH", self.group, self.epoch, 1)
        return struct.pack(">H", len(record)) + record


@contextmanager
def certificate(seed):
    """The path of a key and a certificate that the key signs itself."""
    with tempfile.TemporaryDirectory() as folder:
        der, pem, both = (Path(folder) / name for name in ("key.der", "key.pem", "both.pem"))
        der.write_bytes(PKCS8 + seed)
        run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True)
        run("pkey", "-inform", "DER", "-in", der, "-out", pem)
        run("req", "-x509", "-new", "-key", pem, "-subj", "/", "-days", "2", "-out", both)
        both.write_bytes(both.read_bytes() + pem.read_bytes())
        yield both


def context(seed):
    """TLS with a certificate that the key signs itself."""
    with certificate(seed) as both:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        made.load_cert_chain(both)
        return made


def hello(identity, number=None, service=MAIN, expected=1):
    body = struct.pack(">BH", service, expected) + identity.claim(number)
    return b"DVNP" + struct.pack(">BHH", HELLO, VERSION, len(body)) + body


def place(node):
    return node.host, node.anonymous.get("/nodes/self/peer").json["port"]


def ask_for_short_records(node, seed, content):
    """What a node answers to a client whose records have at most 512 bytes."""
    host, port = place(node)
    with certificate(seed) as both:
        words = ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_3", "-quiet"]
        words += ["-maxfraglen", "512", "-cert", both, "-key", both]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as client:
            client.stdin.write(content)
            client.stdin.flush()
            try:
                return client.communicate(timeout=3)[0]
            except subprocess.TimeoutExpired:
                client.kill()
                return client.communicate()[0]


def greet(node, identity, *, number=None, service=MAIN, expected=1, seed=None):
    """What the node answers to a hello: the kind, and the reason of a refusal."""
    with socket.create_connection(place(node), timeout=10) as plain:
        with context(seed or identity.seed).wrap_socket(plain) as secured:
            secured.sendall(hello(identity, number, service, expected))
            head = secured.recv(9)
            assert head[:4] == b"DVNP", head
            kind, _, length = struct.unpack(">BHH", head[4:])
            body = secured.recv(length)
            return kind, body[0] if kind == REFUSAL else None
