"""The data directory of an earlier release, as text that is kept in `releases/`.

`level-N.txt` is the directory itself: a tar archive, compressed with xz, in lines of hexadecimal digits. `level-N.json`
is what the earlier release answered for it.
"""

import base64
import hashlib
import io
import json
import pathlib
import struct
import tarfile

from .wire import Op, Status

PLACE = pathlib.Path(__file__).resolve().parents[1] / "releases"
# Not part of the data: the file that a running server locks.
LEFT_OUT = ("lock",)


class Recorded:
    """One recorded directory by its name, for example `level-5`."""

    def __init__(self, name):
        self.archive = PLACE / f"{name}.txt"
        self.answers = PLACE / f"{name}.json"

    def pack(self, data):
        """Writes the archive of a data directory whose server has ended."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
            for path in sorted(data.rglob("*")):
                if path.name not in LEFT_OUT:
                    name = str(path.relative_to(data))
                    archive.add(path, name, recursive=False, filter=_anonymous)
        digits = buffer.getvalue().hex()
        lines = [digits[place : place + 120] for place in range(0, len(digits), 120)]
        self.archive.write_text("\n".join(lines) + "\n")

    def unpack(self, data):
        """Makes the data directory."""
        compressed = bytes.fromhex(self.archive.read_text())
        data.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(compressed), mode="r:xz") as archive:
            archive.extractall(data)

    def write_answers(self, answers):
        self.answers.write_text(_lines(answers) + "\n", encoding="utf-8")

    def read_answers(self):
        return json.loads(self.answers.read_text(encoding="utf-8"))


def _anonymous(entry):
    """An entry without the owner of the file and the time of its last change."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


# Bytes as JSON

TEXT_MOST = 512


def as_json(value):
    """Bytes as JSON: text where they are text, and a digest of many."""
    if len(value) > TEXT_MOST:
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def as_key(value):
    """The key that `as_json` was called with."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["base64"])


def _lines(value, indent=""):
    """JSON with a line for each member that fits one."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(text) < 240 or not isinstance(value, (dict, list)):
        return text
    within = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_lines(value[name], within)}" for name in sorted(value)]
        left, right = "{", "}"
    else:
        parts = [_lines(each, within) for each in value]
        left, right = "[", "]"
    separator = f",\n{within}"
    return f"{left}\n{within}{separator.join(parts)}\n{indent}{right}"


# What a node answers

META = struct.Struct(">IIIQ")


def observe(connection, key):
    """A document, or a tombstone, as a node answers for it."""
    meta = connection.call(Op.GET_META, key)
    if meta.status != Status.SUCCESS:
        return {"status": meta.status}
    deleted, flags, expiry, revision = META.unpack(meta.extras[: META.size])
    found = {
        "deleted": deleted,
        "flags": flags,
        "expiry": expiry,
        "revision": revision,
        "cas": f"{meta.cas:016x}",
    }
    reply = connection.get(key)
    if not deleted and (reply.cas, reply.flags) != (meta.cas, flags):
        raise LookupError(f"GET and GET_META differ: {key!r}: {reply!r} {found}")
    if not deleted:
        found.update(value=as_json(reply.value), datatype=reply.datatype)
    return {**found, "status": reply.status}
