"""Where extended attributes leave a node, and where the body alone does: reads, DCP, TAP, the HTTP
feed, views, the document browser and the dump."""

import json
import struct
import subprocess

import pytest

from rig import attributes, dcp
from rig.attributes import DELETE, XATTR, split, stored
from rig.changes import Answer
from rig.dcp import Consumer, Position
from rig.node import SERVER, Node, wait_until
from rig.views import Views
from rig.wire import Feature, Op, Status, USUAL_FEATURES, frame, vbucket_of

PAIRS = {"_sync": '{"rev":"1-a","at":7}', "color": '"red"'}
BODY = b'{"a":1}'
WHOLE = stored(PAIRS, BODY)
XATTRS, NO_VALUE, NO_VALUE_BUT_DATATYPE, DELETED_USER = 0x04, 0x08, 0x40, 0x100
TAP_CONNECT, TAP_MUTATION, TAP_DELETE, DUMP = 0x40, 0x41, 0x42, 2


@pytest.fixture(scope="module")
def node():
    """A node with a document, and a tombstone, that have attributes."""
    with Node() as node:
        node.start().provision()
        node.create_bucket("attributed", numVBuckets=64)
        with node.connect("attributed", attributes.FEATURES) as kv:
            attributes.write(kv, b"doc", PAIRS, BODY, revision=1, cas=100)
            attributes.write(kv, b"text", {"color": '"red"'}, b"no json", revision=1, cas=100)
            attributes.write(kv, b"gone", {"_sync": PAIRS["_sync"]}, op=DELETE, cas=100)
            kv.set(b"plain", b'{"a":2}')
        yield node


@pytest.fixture(params=[USUAL_FEATURES, attributes.FEATURES], ids=["plain", "attributes"])
def kv(node, request):
    with node.connect("attributed", request.param) as connection:
        yield connection


# Reads


@pytest.mark.parametrize(
    "op, extras", [(Op.GET, b""), (Op.GETK, b""), (Op.GAT, bytes(4)), (Op.GETL, b"")]
)
def test_read_has_the_body_alone(kv, op, extras):
    reply = kv.call(op, b"doc", extras=extras)
    if op == Op.GETL:
        assert kv.call(Op.UNLOCK, b"doc", cas=reply.cas).status == Status.SUCCESS
    assert (reply.status, reply.value, reply.datatype) == (Status.SUCCESS, BODY, 1)


def test_read_of_a_body_that_is_not_json(kv):
    reply = kv.get(b"text")
    assert (reply.value, reply.datatype) == (b"no json", 0)


def test_read_of_a_client_without_datatypes(node):
    with node.connect("attributed", (Feature.SELECT_BUCKET,)) as old:
        reply = old.get(b"doc")
        assert (reply.value, reply.datatype) == (BODY, 0)


def test_metadata_has_the_stored_datatype(kv):
    for key, datatype in ((b"doc", 5), (b"text", 4), (b"gone", 4), (b"plain", 1)):
        reply = kv.call(Op.GET_META, key, extras=b"\x02")
        assert (reply.status, reply.extras[-1]) == (Status.SUCCESS, datatype)


def test_plain_write_keeps_attributes(node):
    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"kept", PAIRS, b"1", revision=1, cas=100)
        assert kv.set(b"kept", b'{"b":1}').status == Status.SUCCESS
        assert kv.call(Op.APPEND, b"kept", value=b" ").status == Status.SUCCESS
        assert kv.get(b"kept").value == b'{"b":1} '
        found, body = split(changed(node, b"kept", 1 | XATTRS).value)
        assert (found, body) == (PAIRS, b'{"b":1} ')


# DCP


def changed(node, key, flags, features=attributes.FEATURES):
    """The newest change of a key in a stream."""
    vbucket = vbucket_of(key, 64)
    connection = node.connect("attributed", features)
    with Consumer(connection, name=f"{key}-{flags}", flags=flags) as consumer:
        assert consumer.opened.status == Status.SUCCESS, consumer.opened
        assert consumer.request(vbucket, Position()).status == Status.SUCCESS
        state = consumer.read(
            {vbucket: Position()}, lambda state: any(each.key == key for each in state.changes)
        )
    return next(each for each in state.changes if each.key == key)


def test_stream_without_the_flag_has_the_body_alone(node):
    for features in (USUAL_FEATURES, attributes.FEATURES):
        change = changed(node, b"doc", 1, features)
        assert (change.op, change.value, change.datatype) == (dcp.MUTATION, BODY, 1)
        deletion = changed(node, b"gone", 1, features)
        assert (deletion.op, deletion.value, deletion.datatype) == (dcp.DELETION, b"", 0)


def test_stream_with_the_flag_has_the_stored_form(node):
    change = changed(node, b"doc", 1 | XATTRS)
    assert (change.value, change.datatype) == (WHOLE, 5)
    text = changed(node, b"text", 1 | XATTRS)
    assert (split(text.value)[1], text.datatype) == (b"no json", XATTR)
    plain = changed(node, b"plain", 1 | XATTRS)
    assert (plain.value, plain.datatype) == (b'{"a":2}', 1)


@pytest.mark.parametrize("more", [0, DELETED_USER, 0x20])
def test_deletion_has_its_system_attributes(node, more):
    deletion = changed(node, b"gone", 1 | XATTRS | more)
    assert (deletion.op, deletion.datatype) == (dcp.DELETION, XATTR)
    assert split(deletion.value) == ({"_sync": PAIRS["_sync"]}, b"")


def test_deletion_by_a_client_drops_user_attributes(node):
    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"deleted", PAIRS, BODY, revision=1, cas=100)
        assert kv.call(Op.DELETE, b"deleted").status == Status.SUCCESS
    deletion = changed(node, b"deleted", 1 | XATTRS | DELETED_USER)
    assert split(deletion.value) == ({"_sync": PAIRS["_sync"]}, b"")


def test_streams_without_values_have_attributes_alone(node):
    only = stored(PAIRS)
    change = changed(node, b"doc", 1 | XATTRS | NO_VALUE)
    assert (change.value, change.datatype) == (only, XATTR)
    change = changed(node, b"doc", 1 | XATTRS | NO_VALUE_BUT_DATATYPE)
    assert (change.value, change.datatype) == (only, 5)
    change = changed(node, b"doc", 1 | NO_VALUE)
    assert (change.value, change.datatype) == (b"", 0)
    change = changed(node, b"doc", 1 | NO_VALUE_BUT_DATATYPE)
    assert (change.value, change.datatype) == (b"", 1)


def test_flag_needs_the_agreement(node):
    with Consumer(node.connect("attributed"), flags=1 | XATTRS) as refused:
        assert refused.opened.status == Status.INVALID


def test_stream_from_disk_has_the_same_form(make_node):
    node = make_node().start().provision().create_bucket("attributed", numVBuckets=64)
    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"doc", PAIRS, BODY)
        attributes.write(kv, b"gone", {"_sync": PAIRS["_sync"]}, op=DELETE)
    assert node.stop() == 0
    node.start().await_bucket("attributed")
    assert changed(node, b"doc", 1 | XATTRS).value == WHOLE
    assert changed(node, b"doc", 1).value == BODY
    assert split(changed(node, b"gone", 1 | XATTRS).value)[0] == {"_sync": PAIRS["_sync"]}
    with node.connect("attributed") as kv:
        assert kv.get(b"doc").value == BODY


# TAP and the HTTP feed


def test_tap_has_the_body_alone(node):
    with node.connect("attributed", attributes.FEATURES) as kv:
        kv.send(frame(TAP_CONNECT, extras=struct.pack(">I", DUMP)))
        found = {}
        while {b"doc", b"text", b"plain"} - set(found):
            message = kv.receive()
            if message.op in (TAP_MUTATION, TAP_DELETE):
                found[message.key] = message.value
    assert found[b"doc"] == BODY and found[b"text"] == b"no json"
    assert found.get(b"gone", b"") == b""


def test_http_feed_has_the_body_alone(node):
    answer = Answer(node, "attributed", include_docs="true")
    found = {each["id"]: each for each in answer.changes}
    assert found["doc"]["doc"] == {"a": 1}
    assert found["text"]["base64"] == "bm8ganNvbg=="
    assert found["gone"]["deleted"] and "doc" not in found["gone"]


# Views


MAP = """function (doc, meta) {
  var sync = meta.xattrs._sync;
  emit(meta.id, [sync === undefined ? null : sync.at, doc.a === undefined ? null : doc.a, meta.type,
    Object.keys(meta.xattrs).sort()]);
}"""
ROWS = {
    "doc": [7, 1, "json", ["_sync", "color"]],
    "plain": [None, 2, "json", []],
    "text": [None, None, "base64", ["color"]],
}
ALWAYS = ("doc", "plain", "text", "gone")


def rows(answer):
    return {row["id"]: row["value"] for row in answer.rows if row["id"] in ALWAYS}


def test_map_functions_have_attributes_and_tombstones_no_rows(node):
    views = Views(node, "attributed")
    assert views.put("without", {"all": MAP}).status == 201
    assert rows(views.fresh("without", "all")) == ROWS


def test_option_maps_tombstones_with_attributes(node):
    views = Views(node, "attributed")
    assert views.put("with", {"all": MAP}, index_xattr_on_deleted_docs=True).status == 201
    expected = {**ROWS, "gone": [7, None, "base64", ["_sync"]]}
    assert rows(views.fresh("with", "all")) == expected


def test_row_of_a_tombstone_follows_its_changes(node):
    views = Views(node, "attributed")
    source = "function (doc, meta) { if (meta.xattrs._sync) emit(meta.id, meta.xattrs._sync); }"
    reply = views.put("changing", {"all": source}, index_xattr_on_deleted_docs=True)
    assert reply.status == 201

    def value():
        found = views.fresh("changing", "all", key="moving").rows
        return [row["value"] for row in found]

    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"moving", {"_sync": "1", "u": "2"}, BODY, revision=1, cas=100)
        assert value() == [1]
        assert kv.call(Op.DELETE, b"moving").status == Status.SUCCESS
        assert value() == [1]
        # A document that is created again has no attributes.
        kv.set(b"moving", BODY)
        assert value() == []
        kv.call(Op.DELETE, b"moving")
        assert value() == []


def test_included_documents_have_the_body_alone(node):
    views = Views(node, "attributed")
    source = "function (doc, meta) { emit(meta.id, null); }"
    assert views.put("included", {"all": source}).status == 201
    answer = views.fresh("included", "all", include_docs=True, key="doc")
    assert answer.rows[0]["doc"]["json"] == {"a": 1}
    text = views.fresh("included", "all", include_docs=True, key="text").rows[0]["doc"]
    assert text["base64"] == "bm8ganNvbg==" and "json" not in text


# Browser and dump


def test_browser_has_attributes_beside_the_body(node):
    base = "/pools/default/buckets/attributed/docs"
    found = node.admin.get(f"{base}/doc").json
    assert found["json"] == BODY.decode()
    assert found["xattrs"] == {name: json.loads(text) for name, text in PAIRS.items()}
    text = node.admin.get(f"{base}/text").json
    assert text["base64"] == "bm8ganNvbg==" and text["xattrs"] == {"color": "red"}
    assert "xattrs" not in node.admin.get(f"{base}/plain").json
    page = node.admin.get(f"{base}?include_docs=true").json
    docs = {row["id"]: row["doc"] for row in page["rows"]}
    assert docs["doc"]["json"] == {"a": 1} and docs["doc"]["xattrs"]["color"] == "red"
    assert "xattrs" not in docs["plain"] and "gone" not in docs


def test_write_in_the_browser_keeps_attributes(node):
    path = "/pools/default/buckets/attributed/docs/browsed"
    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"browsed", PAIRS, BODY, revision=1, cas=100)
    assert node.admin.post(path, {"value": '{"b":1}'}).status == 200
    found = node.admin.get(path).json
    assert json.loads(found["json"]) == {"b": 1} and set(found["xattrs"]) == set(PAIRS)


def test_dump_has_the_body_alone(make_node):
    node = make_node().start().provision().create_bucket("attributed", numVBuckets=64)
    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"doc", PAIRS, BODY)
        attributes.write(kv, b"text", {"color": '"red"'}, b"no json")
        attributes.write(kv, b"gone", {"_sync": "1"}, op=DELETE)
    assert node.stop() == 0
    result = subprocess.run(
        [str(SERVER), "--dump", str(node.data)], capture_output=True, timeout=60, check=True
    )
    found = {line["key"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert set(found) == {"doc", "text"}
    assert found["doc"]["value"] == {"a": 1} and found["text"]["base64"] == "bm8ganNvbg=="


def test_ejected_value_is_read_back_with_its_attributes(make_node):
    node = make_node().start().provision()
    node.create_bucket("attributed", numVBuckets=64, evictionPolicy="fullEviction")
    with node.connect("attributed", attributes.FEATURES) as kv:
        attributes.write(kv, b"doc", PAIRS, BODY)
        filler = b"x" * (1 << 20)
        # More than the quota of 100 MB; a write that finds no room is repeated.
        for number in range(160):
            name = b"filler-%d" % number
            wait_until(lambda: kv.set(name, filler).status == Status.SUCCESS, 30, "room")
        assert kv.get(b"doc").value == BODY
    assert changed(node, b"doc", 1 | XATTRS).value == WHOLE
