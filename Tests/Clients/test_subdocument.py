"""Sub-document commands and extended attributes, byte by byte (docs/subdocuments.md)."""

import json
import struct

import pytest

from rig import subdocument as sub
from rig.subdocument import Doc, Path, lookup, mutate
from rig.wire import Feature, Op, Status, USUAL_FEATURES

ATTRIBUTE_FEATURES = (
    *USUAL_FEATURES,
    Feature.XATTR,
    Feature.PRESERVE_TTL,
    Feature.SYNC_REPLICATION,
    Feature.CREATE_AS_DELETED,
    Feature.SUBDOC_REPLICA_READ,
    Feature.SUBDOC_BINARY_XATTR,
)
PATH_MISMATCH, NOT_JSON, BAD_DELTA = 0xC1, 0xC6, 0xC8
BAD_ATTRIBUTE_FLAGS, UNKNOWN_MACRO = 0xCE, 0xD0
UNKNOWN_VIRTUAL, READ_ONLY_VIRTUAL, BAD_ORDER = 0xD1, 0xD2, 0xD4
UNKNOWN_VIRTUAL_MACRO, NOT_DELETED, NO_VALUE, NOT_BINARY = 0xD5, 0xD6, 0xD7, 0xD8
TOMBSTONE = Doc.CREATE_AS_DELETED | Doc.ACCESS_DELETED | Doc.ADD


@pytest.fixture
def kv(node, bucket):
    """A connection that agreed to attributes."""
    with node.connect(bucket, ATTRIBUTE_FEATURES) as connection:
        yield connection


def single(kv, op, key, path, value=b"", flags=0, extras=b"", **fields):
    """A command on one path."""
    path = path.encode()
    return kv.call(op, key, struct.pack(">HB", len(path), flags) + extras, path + value, **fields)


def attributes(kv, key, *names, doc_flags=0):
    """Attributes by name as JSON; None for one that is missing."""
    specs = [(sub.GET, Path.XATTR, name) for name in names]
    found = lookup(kv, key, *specs, doc_flags=doc_flags)
    return [json.loads(value) if status == 0 else None for status, value in found.results]


# One path


def test_each_command_on_one_path_changes_the_document(kv, key):
    kv.set(key, b'{"n":1,"l":[2]}')
    changes = [
        (sub.DICT_ADD, "a", b"1", {"a": 1}),
        (sub.UPSERT, "a", b'"x"', {"a": "x"}),
        (sub.REPLACE, "a", b"[]", {"a": []}),
        (sub.DELETE, "a", b"", {}),
        (sub.PUSH_LAST, "l", b"3", {"l": [2, 3]}),
        (sub.PUSH_FIRST, "l", b"1", {"l": [1, 2, 3]}),
        (sub.ARRAY_INSERT, "l[1]", b"7,8", {"l": [1, 7, 8, 2, 3]}),
        (sub.ADD_UNIQUE, "l", b"9", {"l": [1, 7, 8, 2, 3, 9]}),
        (sub.COUNTER, "n", b"41", {"n": 42, "l": [1, 7, 8, 2, 3, 9]}),
    ]
    expected = {"n": 1, "l": [2]}
    for op, path, value, changed in changes:
        reply = single(kv, op, key, path, value)
        assert reply.status == Status.SUCCESS and len(reply.token) == 2, (op, reply)
        assert reply.value == (b"42" if op == sub.COUNTER else b"")
        expected = {name: expected[name] for name in expected if name != "a"} | changed
        found = kv.get(key)
        assert json.loads(found.value) == expected and found.cas == reply.cas
        assert found.datatype == 1
    assert single(kv, sub.GET, key, "l[-1]").value == b"9"
    assert single(kv, sub.EXISTS, key, "n").status == Status.SUCCESS
    assert single(kv, sub.COUNT, key, "l").value == b"6"
    assert single(kv, sub.COUNT, key, "").value == b"2"


def test_failure_of_one_path_is_the_status_of_its_answer(kv, key):
    kv.set(key, b'{"n":1}')
    for op, path, value, status in [
        (sub.GET, "x", b"", sub.PATH_MISSING),
        (sub.EXISTS, "n.x", b"", PATH_MISMATCH),
        (sub.DICT_ADD, "n", b"2", sub.PATH_EXISTS),
        (sub.REPLACE, "x", b"2", sub.PATH_MISSING),
        (sub.COUNTER, "n", b"0", BAD_DELTA),
        (sub.UPSERT, "", b"2", Status.INVALID),
        (sub.UPSERT, "x", b"", Status.INVALID),
        (sub.DELETE, "n", b"2", Status.INVALID),
        (sub.GET, "a..b", b"", sub.PATH_INVALID),
    ]:
        reply = single(kv, op, key, path, value)
        assert (reply.status, reply.value) == (status, b""), (op, reply)
    assert kv.get(key).value == b'{"n":1}'
    kv.set(key, b"text")
    assert single(kv, sub.GET, key, "n").status == NOT_JSON
    assert single(kv, sub.UPSERT, key, "n", b"1").status == NOT_JSON
    assert single(kv, sub.GET, key + b"-none", "n").status == Status.NOT_FOUND
    assert single(kv, sub.UPSERT, key + b"-none", "n", b"1").status == Status.NOT_FOUND


def test_single_path_mutation_accepts_expiry_and_document_flags(kv, key):
    extras = struct.pack(">IB", 4_000_000_000, Doc.MKDOC)
    assert single(kv, sub.UPSERT, key, "n", b"1", extras=extras).status == Status.SUCCESS
    assert attributes(kv, key, "$document.exptime") == [4_000_000_000]
    add = bytes([Doc.ADD])
    assert single(kv, sub.UPSERT, key, "n", b"1", extras=add).status == Status.EXISTS
    for extras in (b"\0" * 2, b"\0" * 6, b"\x40"):
        assert single(kv, sub.UPSERT, key, "n", b"1", extras=extras).status == Status.INVALID


# Several paths


def test_request_is_refused_as_a_whole(kv, key):
    kv.set(key, b"{}")
    get, attribute = (sub.GET, 0, "a"), (sub.GET, Path.XATTR, "a")
    assert lookup(kv, key, *[get] * 17).status == sub.TOO_MANY_PATHS
    assert lookup(kv, key).status == sub.TOO_MANY_PATHS
    assert lookup(kv, key, get, attribute).status == BAD_ORDER
    for name in ("a" * 16, "[0]", ".a", "!a", "_", "$", ""):
        assert lookup(kv, key, (sub.GET, Path.XATTR, name)).status == Status.XATTR_INVALID, name
    unknown = lookup(kv, key, (sub.GET, Path.XATTR, "$x"))
    assert unknown.results == [(UNKNOWN_VIRTUAL, b"")]
    assert lookup(kv, key, (sub.GET, Path.MKDIR, "a")).status == Status.INVALID
    assert lookup(kv, key, get, doc_flags=Doc.MKDOC).status == Status.INVALID
    upsert = (sub.UPSERT, 0, "a", b"1")
    for specs, doc_flags, status in [
        ([upsert], Doc.MKDOC | Doc.ADD, Status.INVALID),
        ([upsert], Doc.REVIVE, Status.INVALID),
        ([upsert], Doc.REPLICA_READ, Status.INVALID),
        ([upsert, (sub.DELETE, 0, "a")], Doc.MKDOC, Status.INVALID),
        ([sub.body(b"{}")], Doc.ACCESS_DELETED, Status.INVALID),
        ([(sub.UPSERT, 0x10, "a", sub.CAS)], 0, BAD_ATTRIBUTE_FLAGS),
        ([(sub.COUNTER, Path.MACRO, "a", sub.CAS)], 0, Status.INVALID),
        ([sub.macro("a", b'"${other}"')], 0, UNKNOWN_MACRO),
        ([sub.attribute("a", sub.CAS, flags=Path.MACRO | Path.BINARY)], 0, BAD_ATTRIBUTE_FLAGS),
        ([sub.attribute("$document", 1)], 0, READ_ONLY_VIRTUAL),
        ([upsert, (sub.DELETE_DOC, 0, "")], 0, sub.TOO_MANY_PATHS),
        ([upsert, sub.attribute("a", 1)], 0, BAD_ORDER),
        ([(sub.GET, 0, "a", b"")], 0, sub.TOO_MANY_PATHS),
    ]:
        reply = mutate(kv, key, *specs, doc_flags=doc_flags)
        assert (reply.status, reply.failed) == (status, None), (specs, reply)
    assert mutate(kv, key, upsert, doc_flags=Doc.ADD, cas=5).status == Status.INVALID
    reply = mutate(kv, key, sub.macro("a", b'"${$document.other}"'))
    assert (reply.status, reply.failed) == (sub.MULTI_PATH_FAILURE, (0, UNKNOWN_VIRTUAL_MACRO))
    assert kv.get(key).value == b"{}"


def test_failed_path_applies_nothing_of_attributes_and_body(kv, key):
    kv.set(key, b'{"n":1}')
    reply = mutate(
        kv,
        key,
        sub.attribute("user", 1),
        (sub.UPSERT, 0, "a", b"1"),
        (sub.DICT_ADD, 0, "n", b"2"),
        (sub.DELETE, 0, "none"),
    )
    assert (reply.status, reply.failed) == (sub.MULTI_PATH_FAILURE, (2, sub.PATH_EXISTS))
    assert kv.get(key).value == b'{"n":1}'
    assert attributes(kv, key, "user") == [None]


def test_results_of_counters_have_their_index(kv, key):
    kv.set(key, b'{"n":1}')
    reply = mutate(
        kv,
        key,
        (sub.COUNTER, Path.XATTR, "count", b"5"),
        (sub.UPSERT, 0, "a", b"1"),
        (sub.COUNTER, 0, "n", b"-3"),
    )
    assert reply.status == Status.SUCCESS and reply.results == {0: b"5", 2: b"-2"}


def test_cas_guards_a_mutation(kv, key):
    stale = kv.set(key, b"{}").cas
    fresh = kv.set(key, b"{}").cas
    upsert = (sub.UPSERT, 0, "a", b"1")
    assert mutate(kv, key, upsert, cas=stale).status == Status.EXISTS
    assert mutate(kv, key, upsert, cas=fresh).status == Status.SUCCESS
    missing = mutate(kv, key + b"-none", upsert, cas=fresh)
    assert missing.status == Status.NOT_FOUND


def test_mutation_with_mkdoc_creates_missing_document_with_any_cas(kv, key):
    """Gateways make a document of a tombstone so, with the tombstone's CAS."""
    stored = kv.set(key, b"{}").cas
    gone = kv.call(Op.DELETE, key).cas
    specs = (sub.attribute("_sync", 1), sub.body(b'{"a":1}'))
    assert mutate(kv, key, *specs, cas=gone).status == Status.NOT_FOUND
    revived = mutate(kv, key, *specs, doc_flags=Doc.MKDOC, cas=gone)
    assert revived.status == Status.SUCCESS
    assert kv.get(key).value == b'{"a":1}' and attributes(kv, key, "_sync") == [1]
    assert mutate(kv, key, *specs, doc_flags=Doc.MKDOC, cas=gone).status == Status.EXISTS
    large = sub.attribute("_large", "x" * 40_000)
    for name, more in ((b"-none", ()), (b"-large", (large,))):
        made = mutate(kv, key + name, *more, *specs, doc_flags=Doc.MKDOC, cas=stored)
        assert made.status == Status.SUCCESS
    # A tombstone that the request accesses is a version, which the CAS has to name.
    gone = kv.call(Op.DELETE, key).cas
    access = Doc.MKDOC | Doc.ACCESS_DELETED
    assert mutate(kv, key, specs[0], doc_flags=access, cas=revived.cas).status == Status.EXISTS
    assert mutate(kv, key, specs[0], doc_flags=access, cas=gone).status == sub.SUCCESS_DELETED


# Attributes


def test_plain_writes_keep_attributes_and_reads_do_not_show_them(kv, key):
    made = mutate(
        kv,
        key,
        sub.attribute("_sync", {"rev": 1}),
        sub.attribute("user", [1]),
        sub.body(b"1"),
        doc_flags=Doc.ADD,
    )
    assert made.status == Status.SUCCESS
    for change in (
        lambda: kv.counter(Op.INCR, key),
        lambda: kv.set(key, b'{"a":1}'),
        lambda: kv.set(key, b"x", op=Op.REPLACE),
        lambda: kv.call(Op.APPEND, key, value=b"y"),
        lambda: kv.call(Op.PREPEND, key, value=b"z"),
        lambda: kv.call(Op.TOUCH, key, struct.pack(">I", 4_000_000_000)),
    ):
        assert change().status == Status.SUCCESS
        assert attributes(kv, key, "_sync", "user", "$XTOC") == [
            {"rev": 1},
            [1],
            ["_sync", "user"],
        ]
    assert kv.get(key).value == b"zxy"
    assert kv.get(key).datatype & sub.ATTRIBUTES == 0


def test_deletion_keeps_system_attributes_and_a_new_document_has_none(kv, key):
    specs = [sub.attribute("_sync", 1), sub.attribute("user", 2), sub.body(b"{}")]
    assert mutate(kv, key, *specs, doc_flags=Doc.ADD).status == Status.SUCCESS
    assert kv.call(Op.DELETE, key).status == Status.SUCCESS
    assert lookup(kv, key, (sub.GET, Path.XATTR, "_sync")).status == Status.NOT_FOUND
    access = Doc.ACCESS_DELETED
    assert attributes(kv, key, "_sync", "user", doc_flags=access) == [1, None]
    assert attributes(kv, key, "$document.deleted", doc_flags=access) == [True]
    assert kv.set(key, b"{}").status == Status.SUCCESS
    assert attributes(kv, key, "_sync", "user", "$XTOC") == [None, None, []]


def test_whole_document_is_deleted_with_a_change_of_its_attributes(kv, key):
    mutate(kv, key, sub.attribute("_sync", 1), sub.body(b"{}"), doc_flags=Doc.ADD)
    deleted = mutate(
        kv, key, sub.attribute("_sync", 2), sub.attribute("u", 3), (sub.DELETE_DOC, 0, "")
    )
    assert deleted.status == Status.SUCCESS
    found = lookup(
        kv,
        key,
        (sub.GET, Path.XATTR, "_sync"),
        (sub.GET_DOC, 0, ""),
        doc_flags=Doc.ACCESS_DELETED,
    )
    assert (found.status, found.cas) == (sub.FAILURE_DELETED, deleted.cas)
    assert found.results == [(0, b"2"), (sub.PATH_MISSING, b"")]


def test_tombstone_is_created_changed_and_revived(kv, key):
    user, system = sub.attribute("user", 1), sub.attribute("_sync", 1)
    made = mutate(kv, key, user, system, doc_flags=TOMBSTONE)
    assert made.status == sub.SUCCESS_DELETED
    assert kv.get(key).status == Status.NOT_FOUND
    assert mutate(kv, key, user, doc_flags=TOMBSTONE).status == Status.EXISTS
    access = Doc.ACCESS_DELETED
    reply = mutate(kv, key, sub.attribute("user", 2), doc_flags=access, cas=made.cas)
    assert reply.status == sub.SUCCESS_DELETED
    path = (sub.UPSERT, 0, "a", b"1")
    refused = mutate(kv, key, user, path, doc_flags=access)
    assert (refused.status, refused.failed) == (sub.MULTI_PATH_FAILURE, (1, NOT_JSON))
    body = (sub.REPLACE_BODY, Path.XATTR, "user")
    refused = mutate(kv, key, body, doc_flags=access)
    assert (refused.status, refused.failed) == (NO_VALUE, None)
    revived = mutate(kv, key, path, doc_flags=access | Doc.REVIVE)
    assert revived.status == Status.SUCCESS
    assert kv.get(key).value == b'{"a":1}'
    assert attributes(kv, key, "user", "_sync") == [2, 1]
    again = mutate(kv, key, path, doc_flags=access | Doc.REVIVE)
    assert again.status == NOT_DELETED


def test_staged_attribute_becomes_the_body(kv, key):
    staged = sub.attribute("txn", {"op": {"stgd": {"a": 1}}})
    assert mutate(kv, key, staged, doc_flags=TOMBSTONE).status == sub.SUCCESS_DELETED
    committed = mutate(
        kv,
        key,
        (sub.REPLACE_BODY, Path.XATTR, "txn.op.stgd"),
        (sub.DELETE, Path.XATTR, "txn"),
        doc_flags=Doc.ACCESS_DELETED | Doc.REVIVE,
    )
    assert committed.status == Status.SUCCESS
    assert json.loads(kv.get(key).value) == {"a": 1}
    assert attributes(kv, key, "$XTOC") == [[]]


def test_binary_attribute_is_read_back_and_becomes_a_body(kv, key):
    flags, value = Path.XATTR | Path.BINARY, b"\0\1\xff"
    specs = [(sub.UPSERT, flags, "b", value), sub.attribute("n", 1)]
    assert mutate(kv, key, *specs, doc_flags=Doc.MKDOC).status == Status.SUCCESS
    found = lookup(kv, key, (sub.GET, flags, "b"), (sub.GET, flags, "n"))
    assert found.results == [(0, value), (NOT_BINARY, b"")]
    assert mutate(kv, key, (sub.REPLACE_BODY, flags, "b")).status == Status.SUCCESS
    assert kv.get(key).value == value and kv.get(key).datatype == 0


def test_virtual_document_describes_the_version(kv, key):
    kv.set(key, b'{"a":1}', flags=7)
    written = mutate(kv, key, sub.attribute("user", 1))
    uuid, seqno = written.token
    (document,) = attributes(kv, key, "$document")
    assert document == {
        "CAS": f"{written.cas:#018x}",
        "vbucket_uuid": f"{uuid:#018x}",
        "seqno": f"{seqno:#018x}",
        "revid": "2",
        "exptime": 0,
        "flags": 7,
        "value_bytes": 7,
        "datatype": ["json", "xattr"],
        "deleted": False,
        "last_modified": str(written.cas // 10**9),
        "value_crc32c": sub.crc32c_text(b'{"a":1}'),
    }
    (clock,) = attributes(kv, key, "$vbucket.HLC")
    assert clock["mode"] in ("real", "logical")
    assert int(clock["now"]) >= written.cas // 10**9


def test_macros_are_those_of_the_version_that_is_stored(kv, key):
    body = b'{"a":1}'
    before = kv.set(key, b"{}")
    written = mutate(
        kv,
        key,
        sub.attribute("_sync", {}),
        sub.macro("_sync.cas"),
        sub.macro("_sync.seqno", sub.SEQNO),
        sub.macro("_sync.crc", sub.CRC32C),
        sub.macro("_sync.before", b'"${$document.CAS}"'),
        sub.body(body),
    )
    assert written.status == Status.SUCCESS
    assert attributes(kv, key, "_sync") == [
        {
            "cas": sub.cas_text(written.cas),
            "seqno": f"{written.token[1]:#018x}",
            "crc": sub.crc32c_text(body),
            "before": f"{before.cas:#018x}",
        }
    ]


def test_attributes_need_their_feature(node, bucket, key):
    with node.connect(bucket) as plain:
        plain.set(key, b'{"a":1}')
        assert lookup(plain, key, (sub.GET, 0, "a")).results == [(0, b"1")]
        for name in ("user", "$document"):
            reply = lookup(plain, key, (sub.GET, Path.XATTR, name))
            assert reply.status == Status.NOT_SUPPORTED
        assert mutate(plain, key, sub.attribute("a", 1)).status == Status.NOT_SUPPORTED


# Expiry, durability, size


def test_expiry_is_set_preserved_and_removed(kv, key):
    upsert = (sub.UPSERT, 0, "a", b"1")
    for change, expiry in [
        ({"expiry": 4_100_000_000}, 4_100_000_000),
        ({"expiry": 10, "frames": b"\x50"}, 4_000_000_000),
        ({"frames": b"\x50"}, 4_000_000_000),
        ({"expiry": 0}, 0),
        ({}, 0),
    ]:
        kv.set(key, b"{}", expiry=4_000_000_000)
        assert mutate(kv, key, upsert, **change).status == Status.SUCCESS
        assert attributes(kv, key, "$document.exptime") == [expiry]


def test_durable_mutation_is_visible_with_its_answer(kv, key):
    kv.set(key, b'{"n":1}')
    for level in (1, 2, 3):
        reply = mutate(
            kv,
            key,
            sub.macro("cas"),
            (sub.COUNTER, 0, "n", b"1"),
            frames=bytes([0x11, level]),
        )
        assert reply.status == Status.SUCCESS and reply.results == {1: str(level + 1).encode()}
        assert kv.get(key).cas == reply.cas
        assert attributes(kv, key, "cas") == [sub.cas_text(reply.cas)]


def test_documents_of_twenty_mebibytes_are_read_and_changed(kv, key):
    text = b"x" * (19 << 20)
    assert kv.set(key, b'{"text":"' + text + b'","n":1}').status == Status.SUCCESS
    assert lookup(kv, key, (sub.GET, 0, "n")).results == [(0, b"1")]
    reply = mutate(kv, key, sub.macro("cas"), (sub.COUNTER, 0, "n", b"1"))
    assert reply.status == Status.SUCCESS and reply.results == {1: b"2"}
    assert attributes(kv, key, "cas") == [sub.cas_text(reply.cas)]
    too_big = mutate(kv, key, (sub.UPSERT, 0, "more", b'"' + b"y" * (2 << 20) + b'"'))
    assert too_big.status == Status.TOO_BIG
    assert kv.get(key).value == b'{"text":"' + text + b'","n":2}'
    assert kv.call(Op.DELETE, key).status == Status.SUCCESS


def test_largest_document_has_room_for_system_attributes_beside_it(kv, key):
    largest = b'"' + b"x" * ((20 << 20) - 2) + b'"'
    system = sub.attribute("_sync", b'"' + b"s" * ((1 << 20) - 16) + b'"')
    made = mutate(kv, key, system, sub.macro("_cas"), sub.body(largest), doc_flags=Doc.MKDOC)
    assert made.status == Status.TOO_BIG
    system = sub.attribute("_sync", b'"' + b"s" * (1 << 19) + b'"')
    made = mutate(kv, key, system, sub.macro("_cas"), sub.body(largest), doc_flags=Doc.MKDOC)
    assert made.status == Status.SUCCESS
    assert kv.get(key).value == largest
    assert attributes(kv, key, "_cas") == [sub.cas_text(made.cas)]
    for more in (sub.attribute("user", 1), sub.body(largest + b" ")):
        assert mutate(kv, key, more).status == Status.TOO_BIG
    assert kv.call(Op.NOOP).status == Status.SUCCESS
    assert kv.call(Op.DELETE, key).status == Status.SUCCESS


def test_document_of_large_paths_is_made_and_not_made_twice(kv, key):
    large = (sub.UPSERT, 0, "a.b", b'"' + b"x" * (1 << 20) + b'"')
    counters = [(sub.COUNTER, 0, f"n{number}.m", b"1") for number in range(15)]
    assert mutate(kv, key, large, *counters).status == Status.NOT_FOUND
    made = mutate(kv, key, large, *counters, doc_flags=Doc.ADD)
    assert made.status == Status.SUCCESS
    assert made.results == {number: b"1" for number in range(1, 16)}
    assert mutate(kv, key, large, *counters, doc_flags=Doc.ADD).status == Status.EXISTS
    assert kv.get(key).cas == made.cas


def test_request_that_makes_a_document_makes_parents(kv, key):
    specs = [
        (sub.UPSERT, Path.MACRO, "_vv.src.cas", sub.CAS),
        (sub.UPSERT, 0, "a.b", b"1"),
        (sub.PUSH_LAST, 0, "l.m", b"2"),
    ]
    made = mutate(kv, key, *specs, doc_flags=Doc.MKDOC)
    assert made.status == Status.SUCCESS
    assert json.loads(kv.get(key).value) == {"a": {"b": 1}, "l": {"m": [2]}}
    assert attributes(kv, key, "_vv.src.cas") == [sub.cas_text(made.cas)]
    failed = mutate(kv, key, (sub.UPSERT, 0, "x.y", b"1"))
    assert (failed.status, failed.failed) == (sub.MULTI_PATH_FAILURE, (0, sub.PATH_MISSING))
    assert mutate(kv, key, (sub.UPSERT, 0, "x.y", b"1"), doc_flags=Doc.MKDOC).status == 0


def test_attributes_survive_a_restart(make_node):
    node = make_node().start().provision().create_bucket("kept")
    specs = [sub.attribute("_sync", {"rev": 1}), sub.attribute("user", 2)]
    with node.connect("kept", ATTRIBUTE_FEATURES) as kv:
        made = mutate(
            kv, "live", *specs, sub.body(b"{}"), doc_flags=Doc.ADD, frames=b"\x11\x03"
        )
        assert made.status == Status.SUCCESS
        gone = mutate(kv, "gone", *specs, doc_flags=TOMBSTONE, frames=b"\x11\x03")
        assert gone.status == sub.SUCCESS_DELETED
    node.stop()
    node.start().await_bucket("kept")
    with node.connect("kept", ATTRIBUTE_FEATURES) as kv:
        for name, flags in (("live", 0), ("gone", Doc.ACCESS_DELETED)):
            assert attributes(kv, name, "_sync", "user", doc_flags=flags) == [{"rev": 1}, 2]
