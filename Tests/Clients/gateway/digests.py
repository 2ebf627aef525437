"""Writes of random documents, and the revision ids that the real Sync Gateway 1.4.1 gave them.

    python -m gateway.digests ADMIN --record gateway/digests-1.4.1.jsonl.gz

ADMIN is the administration port, on the loopback address, of a gateway that has just started with
an empty database `db`. A revision id has the digest of the parent's id and of the body as Go's JSON
encoder writes it, so each difference in parsing or writing JSON changes the id.
"""

import argparse
import dataclasses
import decimal
import gzip
import json
import math
import random
import struct
import zlib

from .driver import Connection

SEED = 35
DOCUMENTS = 1_000
# Rounds of writes; a round has at most one write of a document.
CREATE, UPDATE, DELETE, REVIVE = range(4)

STRING_CHARACTERS = (
    *("a", "Z", "0", " ", "/", "\\", '"', "'", "<", ">", "&", "=", "%", "+"),
    *("\n", "\r", "\t", "\b", "\f", "\u0000", "\u001f", "\u007f", "\u0080", "\u00ad"),
    *("é", "e\u0301", "ß", "İ", "日本", "\u2028", "\u2029", "\u200b", "\ufeff"),
    *("\ud7ff", "\ue000", "\ufffd", "\ufffe", "\uffff", "\U00010000", "😀", "\U0010ffff"),
)
NAMES = (
    *("a", "A", "b", "aa", "a.b", "", " ", "1", "10", "2"),
    *("é", "\ue000", "😀", "\uffff", "__proto__"),
)
NUMBERS = (
    "0 -0 -0.0 0.0 0e5 1.0 1.50 10 100 1e2 1E2 1e+2 0.1 1e-6 9.99e-7 1e-7 123456e-12 1e20 1e21 "
    "999999999999999999999 123456789012345678901234567890 4294967296 -2147483648 2147483647 "
    "9007199254740991 9007199254740992 9007199254740993 -9007199254740993 9223372036854775807 "
    "9223372036854775808 18446744073709551615 18446744073709551616 1e22 1e23 8.5e22 "
    "5e-324 4.9e-324 2.5e-324 2.4e-324 1e-400 -1e-400 2.2250738585072011e-308 "
    "2.2250738585072014e-308 1.7976931348623157e308 1.7976931348623158e308 "
    "0.1000000000000000055511151231257827 0.30000000000000004 0.3 3.14159265358979323846 1000000 "
    "1234567 12345678.9 0.0001 0.00001 0.000001 100000000000000000000 1000000000000000000000"
).split()


@dataclasses.dataclass
class Write:
    """One write: its round, the document's id, and the members that are sent, as JSON text."""

    round: int
    id: str
    members: list

    def body(self, parent=None):
        """The JSON that is sent; `parent` is the revision that it replaces."""
        members = list(self.members)
        if parent and self.round != REVIVE:
            members.insert(0, '"_rev":' + json.dumps(parent))
        return "{" + ",".join(members) + "}"

    @property
    def fingerprint(self):
        """A number that changes with the write: a record belongs to one generator."""
        text = f"{self.round} {self.id} {self.body()}"
        return zlib.crc32(text.encode("utf-8", errors="surrogatepass"))


class Maker:
    """JSON texts from a seed: blanks, escapes and forms of numbers differ, not only the values."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def blank(self):
        blanks = (" ", "\n", "\t", "\r\n  ")
        return self.random.choice(blanks) if self.random.random() < 0.05 else ""

    def escaped(self, character):
        """A character as JSON; those that need no escape may have one."""
        must = ord(character) < 0x20 or character in '"\\'
        if not must and self.random.random() < 0.8:
            return character
        if character == "/" or (character in '"\\\n\r\t\b\f' and self.random.random() < 0.5):
            return "\\/" if character == "/" else json.dumps(character)[1:-1]
        code = character.encode("utf-16-be", errors="surrogatepass")
        units = [code[at : at + 2].hex() for at in range(0, len(code), 2)]
        if self.random.random() < 0.5:
            units = [unit.upper() for unit in units]
        return "".join("\\u" + unit for unit in units)

    def characters(self):
        parts = []
        for _ in range(self.random.randrange(12)):
            kind = self.random.random()
            if kind < 0.6:
                parts.append(self.random.choice(STRING_CHARACTERS))
            elif kind < 0.97:
                code = self.random.randrange(0x11_0000)
                parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "x")
            else:
                # Half of a surrogate pair: as an escape only, because UTF-8 has none.
                parts.append(chr(self.random.randrange(0xD800, 0xE000)))
        return "".join(parts)

    def string(self, text=None):
        shown = []
        for character in self.characters() if text is None else text:
            if 0xD800 <= ord(character) < 0xE000:
                shown.append("\\u%04x" % ord(character))
            else:
                shown.append(self.escaped(character))
        return '"' + "".join(shown) + '"'

    def number(self):
        kind = self.random.random()
        if kind < 0.4:
            return self.random.choice(NUMBERS)
        if kind < 0.6:
            digits = str(self.random.randrange(10 ** self.random.randrange(1, 26)))
            return self.random.choice(("", "-")) + digits
        double = self.double()
        if kind < 0.8:
            return repr(double).replace("e", self.random.choice("eE"))
        if kind < 0.9:
            return f"{double:.{self.random.randrange(1, 25)}e}"
        # Exactly between two doubles, and a little beside it.
        double = self.random.uniform(-1, 1) * 10.0 ** self.random.randrange(-30, 30)
        with decimal.localcontext() as context:
            context.prec = 400
            middle = (decimal.Decimal(double) + decimal.Decimal(math.nextafter(double, 9e99))) / 2
            return f"{middle:f}" + self.random.choice(("", "0", "1", "00000000000000000000001"))

    def double(self):
        """Any finite double, each of its 64 bits at random."""
        while True:
            (double,) = struct.unpack(">d", self.random.randbytes(8))
            if math.isfinite(double):
                return double

    def value(self, depth):
        kind = self.random.random()
        if kind < 0.35:
            return self.string()
        if kind < 0.7:
            return self.number()
        if kind < 0.8 or depth == 0:
            return self.random.choice(("true", "false", "null", "[]", "{}", '""'))
        count = self.random.randrange(5)
        if kind < 0.9:
            inner = [self.blank() + self.value(depth - 1) + self.blank() for _ in range(count)]
            return "[" + ",".join(inner) + "]"
        return "{" + ",".join(self.member(depth - 1) for _ in range(count)) + "}"

    def member(self, depth, is_top=False):
        """A member of an object. Names repeat: the last value of a name counts."""
        name = self.random.choice(NAMES) if self.random.random() < 0.7 else self.characters()
        if not is_top and self.random.random() < 0.1:
            name = self.random.choice(("_id", "_rev", "_deleted", "_attachments", "_x"))
        if is_top:
            name = name.lstrip("_")
        return self.blank() + self.string(name) + self.blank() + ":" + self.value(depth)

    def members(self):
        """The members of a document. Few documents have one of 1 000 digits, or many levels."""
        found = [self.member(4, is_top=True) for _ in range(self.random.randrange(7))]
        kind = self.random.random()
        if kind < 0.02:
            found.append('"digits":' + "123456789" * self.random.randrange(20, 34) + ".25")
        elif kind < 0.04:
            levels = self.random.randrange(20, 200)
            found.append('"deep":' + "[" * levels + self.number() + "]" * levels)
        elif kind < 0.06:
            found.append('"long":' + self.string(self.characters() * 400))
        return found


def writes(seed=SEED, count=DOCUMENTS):
    """The writes by rounds: of the documents 2 of 5 are updated, 1 of 4 deleted, some made anew."""
    maker = Maker(seed)
    found = []
    for number in range(count):
        id = f"document-{number:04}"
        found.append(Write(CREATE, id, maker.members()))
        if maker.random.random() < 0.4:
            found.append(Write(UPDATE, id, maker.members()))
        if maker.random.random() < 0.25:
            members = maker.members() if maker.random.random() < 0.5 else []
            found.append(Write(DELETE, id, [*members, '"_deleted":true']))
            if maker.random.random() < 0.4:
                found.append(Write(REVIVE, id, maker.members()))
    return sorted(found, key=lambda each: (each.round, each.id))


class OtherStream(Exception):
    """The record does not belong to the writes that the generator makes now."""


def recorded(path, seed=SEED):
    """Pairs of write and recorded revision id."""
    with gzip.open(path, "rt") as file:
        answers = [json.loads(line) for line in file]
    found = writes(seed)
    if [number for number, _ in answers] != [each.fingerprint for each in found]:
        raise OtherStream(f"{path} has {len(answers)} writes, the generator makes {len(found)}")
    return [(write, revision) for write, (_, revision) in zip(found, answers)]


def put(connection, write, parent):
    """Writes one document; its revision id."""
    body = write.body(parent).encode()
    head = f"PUT /db/{write.id} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answer = connection.head()
    connection.read_body(answer, "PUT")
    if answer.status != 201:
        raise ValueError(f"{answer.status} {answer.body!r} for {body!r}")
    return json.loads(answer.body)["rev"]


def record(port, path):
    """Writes the revision ids of a gateway: a line for each write, with its fingerprint."""
    connection, parents = Connection(("127.0.0.1", port)), {}
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as file:
        for write in writes():
            parents[write.id] = put(connection, write, parents.get(write.id))
            file.write(json.dumps([write.fingerprint, parents[write.id]]).encode() + b"\n")
    connection.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("port", type=int)
    parser.add_argument("--record", metavar="FILE", required=True)
    options = parser.parse_args()
    record(options.port, options.record)


if __name__ == "__main__":
    main()
