"""Values compressed with snappy: in requests, in answers and in streams."""

import json
import os

import pytest

from rig import attributes, dcp, snappy
from rig.dcp import Consumer, Position
from rig.wire import Feature, Op, Status, USUAL_FEATURES, frame, vbucket_of

FEATURES = (*USUAL_FEATURES, Feature.SNAPPY)
DOCUMENT = json.dumps([{"number": number, "text": "snappy"} for number in range(500)]).encode()
LARGEST = 20 << 20


@pytest.fixture
def packing(node, bucket):
    """A connection that agreed to snappy."""
    with node.connect(bucket, FEATURES) as connection:
        assert Feature.SNAPPY in connection.features
        yield connection


@pytest.mark.parametrize("value", [b"", b"a", b"a" * 100, b"ab" * 100, DOCUMENT])
def test_snappy_codec_of_the_tests_round_trips(value):
    assert snappy.decompress(snappy.compress(value)) == value


@pytest.mark.parametrize("datatype", [2, 3])
def test_compressed_value_is_stored_inflated(packing, kv, key, datatype):
    reply = packing.set(key, snappy.compress(DOCUMENT), datatype=datatype)
    assert reply.status == Status.SUCCESS
    found = kv.get(key)
    assert (found.value, found.datatype) == (DOCUMENT, 1)


def test_compressed_value_that_is_not_json(packing, kv, key):
    assert packing.set(key, snappy.compress(b"no json"), datatype=2).status == Status.SUCCESS
    found = kv.get(key)
    assert (found.value, found.datatype) == (b"no json", 0)


def test_every_command_with_a_value_takes_a_compressed_one(packing, kv, key):
    part = snappy.compress(b"b")
    assert packing.set(key, part, op=Op.ADD, datatype=2).status == Status.SUCCESS
    assert packing.set(key, part, op=Op.REPLACE, datatype=2).status == Status.SUCCESS
    append = packing.call(Op.APPEND, key, value=snappy.compress(b"c"), datatype=2)
    prepend = packing.call(Op.PREPEND, key, value=snappy.compress(b"a"), datatype=2)
    assert append.status == prepend.status == Status.SUCCESS
    assert kv.get(key).value == b"abc"


def test_compressed_attributes_are_inflated_with_their_body(node, bucket, kv, key):
    with node.connect(bucket, (*FEATURES, Feature.XATTR)) as both:
        value = snappy.compress(attributes.stored({"u": "1"}, DOCUMENT))
        reply = both.call(attributes.SET, key, attributes.extras(1, 50), value, datatype=6)
        assert reply.status == Status.SUCCESS
    found = kv.get(key)
    assert (found.value, found.datatype) == (DOCUMENT, 1)


def test_compressed_value_needs_its_agreement(kv, key):
    for datatype in (2, 3):
        reply = kv.set(key, snappy.compress(DOCUMENT), datatype=datatype)
        assert reply.status == Status.INVALID
    assert kv.get(key).status == Status.NOT_FOUND


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff" * 6, snappy.stated(100), snappy.compress(DOCUMENT)[:-1], snappy.stated(1) + b"x"],
)
def test_damaged_value_is_refused(packing, key, value):
    assert packing.set(key, value, datatype=2).status == Status.INVALID
    assert packing.get(key).status == Status.NOT_FOUND


def test_stated_length_is_bounded_before_it_is_used(packing, key):
    for count in (LARGEST + 1, 1 << 31, (1 << 32) - 1):
        reply = packing.set(key, snappy.stated(count) + b"\0a", datatype=2)
        assert reply.status in (Status.TOO_BIG, Status.INVALID)
    assert packing.get(key).status == Status.NOT_FOUND


def test_largest_value_is_inflated(packing, kv, key):
    value = b"a" * LARGEST
    packed = snappy.compress(value)
    assert len(packed) < LARGEST / 20
    assert packing.set(key, packed, datatype=2).status == Status.SUCCESS
    assert kv.get(key).value == value
    assert packing.set(key, snappy.compress(value + b"a"), datatype=2).status == Status.TOO_BIG
    kv.call(Op.DELETE, key)


def test_pipeline_with_compressed_values_is_answered_in_order(packing, key):
    vbucket = vbucket_of(key, packing.vbuckets)
    packed = snappy.compress(DOCUMENT)
    requests = b""
    for number in range(50):
        requests += frame(
            Op.SET, key, bytes(8), packed, vbucket=vbucket, opaque=2 * number, datatype=2
        )
        requests += frame(Op.GET, key, vbucket=vbucket, opaque=2 * number + 1)
    packing.send(requests)
    for number in range(100):
        reply = packing.receive()
        assert (reply.opaque, reply.status) == (number, Status.SUCCESS)
        if number % 2:
            assert snappy.decompress(reply.value) == DOCUMENT


# Answers


def test_large_answer_is_compressed_for_a_client_that_agreed(packing, kv, key):
    kv.set(key, DOCUMENT, flags=7)
    for op in (Op.GET, Op.GETK):
        plain, packed = kv.call(op, key), packing.call(op, key)
        assert (plain.datatype, plain.value) == (1, DOCUMENT)
        assert packed.datatype == 3 and len(packed.value) < len(DOCUMENT) / 2
        assert snappy.decompress(packed.value) == DOCUMENT
        assert (packed.cas, packed.flags, packed.key) == (plain.cas, plain.flags, plain.key)


def test_other_answers_are_plain(packing, kv, key):
    noise = os.urandom(10_000)
    for value in (b"{}", b"a" * 4095, noise, b"a" * (1 << 20)):
        kv.set(key, value)
        reply = packing.get(key)
        assert reply.value == value and not reply.datatype & 2
    kv.set(key, DOCUMENT)
    for op, extras in ((Op.GAT, bytes(4)), (Op.GETL, b"")):
        reply = packing.call(op, key, extras=extras)
        assert reply.value == DOCUMENT and not reply.datatype & 2


# Streams


def change_of(consumer, vbucket, key):
    reply = consumer.request(vbucket, Position())
    assert reply.status == Status.SUCCESS
    state = consumer.read({vbucket: Position()}, lambda state: any(
        each.key == key for each in state.changes
    ))
    return next(each for each in state.changes if each.key == key)


def test_stream_is_compressed_after_its_control(node, kv, key, bucket):
    kv.set(key, DOCUMENT)
    vbucket = vbucket_of(key, kv.vbuckets)
    with Consumer(node.connect(bucket, FEATURES), name=key.decode()) as consumer:
        assert consumer.control("force_value_compression", "true") == Status.SUCCESS
        change = change_of(consumer, vbucket, key)
        assert change.op == dcp.MUTATION and change.datatype == 3
        assert snappy.decompress(change.value) == DOCUMENT
    with Consumer(node.connect(bucket, FEATURES), name=key.decode()) as consumer:
        assert change_of(consumer, vbucket, key).value == DOCUMENT


def test_compressed_stream_needs_the_agreement(node, bucket, key):
    with Consumer(node.connect(bucket), name=key.decode()) as consumer:
        assert consumer.control("force_value_compression", "true") == Status.INVALID
        assert consumer.control("force_value_compression", "false") == Status.SUCCESS


def test_compressed_bytes_count_for_the_buffer(node, bucket, kv, key):
    kv.set(key, DOCUMENT)
    vbucket = vbucket_of(key, kv.vbuckets)
    with Consumer(node.connect(bucket, FEATURES), name=key.decode()) as consumer:
        consumer.control("force_value_compression", "true")
        consumer.control("connection_buffer_size", 1 << 20)
        consumer.acknowledges = 1
        for number in range(200):
            kv.set(key, DOCUMENT[:-1] + b", %d]" % number)
        state = {vbucket: Position()}
        assert consumer.request(vbucket, Position()).status == Status.SUCCESS
        last = b", 199]"
        found = consumer.read(
            state,
            lambda state: any(
                each.key == key and snappy.decompress(each.value).endswith(last)
                for each in state.changes
            ),
        )
        assert found.positions[vbucket].seqno > 0


# HELLO


def test_hello_grants_snappy_and_never_the_datatype_feature(node):
    with node.connect() as raw:
        granted = raw.hello([1, Feature.SNAPPY, Feature.JSON])
        assert granted == (Feature.SNAPPY, Feature.JSON)
