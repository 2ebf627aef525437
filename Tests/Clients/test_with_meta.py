"""Versions of other clusters: SET_WITH_META, ADD_WITH_META, DELETE_WITH_META; GET_META and
GET_RANDOM_KEY."""

import struct
import time

import pytest

from rig import attributes
from rig.attributes import ADD, DELETE, SET, SET_QUIET, XATTR, extras, stored
from rig.wire import Op, Status, USUAL_FEATURES, frame, vbucket_of

RANDOM_KEY = 0xB6


@pytest.fixture
def kv(node, bucket):
    """A connection that agreed to attributes."""
    with node.connect(bucket, attributes.FEATURES) as connection:
        yield connection


def meta(kv, key):
    """Deleted, flags, expiry, revision, datatype and CAS."""
    reply = kv.call(Op.GET_META, key, extras=b"\x02")
    assert reply.status == Status.SUCCESS, reply
    return (*struct.unpack(">IIIQB", reply.extras), reply.cas)


def test_version_keeps_its_metadata(kv, key):
    expiry = int(time.time()) + 1000
    reply = kv.call(SET, key, extras(7, 99, flags=5, expiry=expiry), b'{"a":1}')
    assert reply.status == Status.SUCCESS and reply.cas == 99 and len(reply.extras) == 16
    assert meta(kv, key) == (0, 5, expiry, 7, 1, 99)
    found = kv.get(key)
    assert (found.value, found.flags, found.cas, found.datatype) == (b'{"a":1}', 5, 99, 1)


@pytest.mark.parametrize("options", [None, 0])
@pytest.mark.parametrize("extended", [None, 0, 3])
def test_every_form_of_extras_is_accepted(kv, key, options, extended):
    given = extras(1, 50, options=options, extended=extended)
    assert kv.call(SET, key, given, b"value" + bytes(extended or 0)).status == Status.SUCCESS
    assert kv.get(key).value == b"value"


@pytest.mark.parametrize("count", [0, 8, 23, 25, 27, 29, 31])
def test_extras_of_other_lengths_are_refused(kv, key, count):
    assert kv.call(SET, key, bytes([1]) * count, b"v").status == Status.INVALID


def test_higher_revision_wins_and_then_higher_cas(kv, key):
    assert kv.call(SET, key, extras(5, 50), b"1").status == Status.SUCCESS
    for revision, cas in ((4, 60), (5, 49), (5, 50)):
        assert kv.call(SET, key, extras(revision, cas), b"2").status == Status.EXISTS
        assert kv.call(DELETE, key, extras(revision, cas)).status == Status.EXISTS
    assert kv.call(SET, key, extras(5, 51), b"3").status == Status.SUCCESS
    assert kv.call(SET, key, extras(6, 10), b"4").status == Status.SUCCESS
    assert kv.get(key).value == b"4"


def test_revision_grows_from_the_foreign_one(kv, key):
    assert kv.call(SET, key, extras(41, 50), b"1").status == Status.SUCCESS
    stored_cas = kv.set(key, b"2").cas
    assert meta(kv, key)[3] == 42 and stored_cas > 50


def test_conflict_resolution_can_be_skipped(kv, key):
    assert kv.call(SET, key, extras(5, 50), b"1").status == Status.SUCCESS
    skip = extras(2, 9, options=attributes.SKIP_CONFLICT_RESOLUTION)
    assert kv.call(SET, key, skip, b"2").status == Status.SUCCESS
    assert meta(kv, key)[3:] == (2, 1, 9)


def test_regenerated_cas_needs_skipped_conflict_resolution(kv, key):
    alone = extras(5, 50, options=attributes.REGENERATE_CAS)
    assert kv.call(SET, key, alone, b"1").status == Status.INVALID
    both = extras(5, 50, options=attributes.REGENERATE_CAS | attributes.SKIP_CONFLICT_RESOLUTION)
    reply = kv.call(SET, key, both, b"1")
    assert reply.status == Status.SUCCESS and reply.cas > 50
    assert meta(kv, key)[3] == 5 and meta(kv, key)[5] == reply.cas


@pytest.mark.parametrize("options", [attributes.FORCE_ACCEPT, 0x08, 0x100])
def test_options_of_other_buckets_are_refused(kv, key, options):
    assert kv.call(SET, key, extras(5, 50, options=options), b"1").status == Status.INVALID


@pytest.mark.parametrize("cas", [0, 0xFFFF_FFFF_FFFF_FFFF])
def test_version_needs_a_possible_cas(kv, key, cas):
    assert kv.call(SET, key, extras(5, cas), b"1").status == Status.INVALID


def test_request_names_the_version_that_it_replaces(kv, key):
    assert kv.call(SET, key, extras(1, 50), b"1", cas=7).status == Status.NOT_FOUND
    assert kv.call(SET, key, extras(1, 50), b"1").status == Status.SUCCESS
    assert kv.call(SET, key, extras(2, 60), b"2", cas=49).status == Status.EXISTS
    assert kv.call(SET, key, extras(2, 60), b"2", cas=50).status == Status.SUCCESS


def test_addition_and_deletion(kv, key):
    assert kv.call(ADD, key, extras(1, 50), b"1").status == Status.SUCCESS
    assert kv.call(ADD, key, extras(9, 90), b"2").status == Status.EXISTS
    assert kv.call(DELETE, key, extras(9, 90)).status == Status.SUCCESS
    assert kv.get(key).status == Status.NOT_FOUND
    deleted, _, _, revision, _, cas = meta(kv, key)
    assert (deleted, revision, cas) == (1, 9, 90)
    assert kv.call(ADD, key, extras(10, 95), b"3").status == Status.SUCCESS


def test_deletion_without_a_document_leaves_a_tombstone(kv, key):
    assert kv.call(DELETE, key, extras(3, 40)).status == Status.SUCCESS
    assert meta(kv, key)[0] == 1


def test_locked_document_refuses_a_version(kv, key):
    kv.set(key, b"1")
    locked = kv.call(Op.GETL, key)
    assert kv.call(SET, key, extras(50, 50), b"2").status == Status.LOCKED
    assert kv.call(SET, key, extras(50, 50), b"2", cas=locked.cas).status == Status.SUCCESS


def test_quiet_request_is_answered_only_if_it_fails(kv, key):
    fields = {"vbucket": vbucket_of(key, kv.vbuckets)}
    quiet = frame(SET_QUIET, key, extras(5, 50), b"1", opaque=1, **fields)
    again = frame(SET_QUIET, key, extras(5, 50), b"1", opaque=2, **fields)
    kv.send(quiet + again + frame(Op.NOOP, opaque=3))
    replies = [kv.receive(), kv.receive()]
    assert [(each.opaque, each.status) for each in replies] == [
        (2, Status.EXISTS),
        (3, Status.SUCCESS),
    ]


def test_durability_is_not_supported(node, bucket, key):
    with node.connect(bucket) as kv:
        reply = kv.call(SET, key, extras(5, 50), b"1", frames=b"\x11\x01")
        assert reply.status == Status.NOT_SUPPORTED


# Attributes


def test_attributes_are_stored_in_front_of_the_body(kv, key):
    attributes.write(kv, key, {"_sync": '{"rev":1}', "u": "2"}, b'{"a":1}', revision=5)
    assert meta(kv, key)[4] == attributes.JSON | XATTR
    found = kv.get(key)
    assert (found.value, found.datatype) == (b'{"a":1}', 1)


def test_malformed_attributes_are_refused(kv, key):
    whole = stored({"a": "1"}, b"{}")
    twice = struct.pack(">I", 16) + stored({"a": "1"})[4:] * 2
    for value in (b"", b"\0\0", whole[:9], twice, stored({"a" * 16: "1"}), stored({"": "1"})):
        reply = kv.call(SET, key, extras(5, 50), value, datatype=XATTR)
        assert reply.status == Status.XATTR_INVALID, value
    assert kv.get(key).status == Status.NOT_FOUND


def test_largest_document_has_room_for_system_attributes_beside_it(kv, key):
    body, text = b"x" * (20 << 20), '"' + "s" * (1 << 19) + '"'
    for name, status in (("user", Status.TOO_BIG), ("_sync", Status.SUCCESS)):
        value = stored({name: text}, body)
        reply = kv.call(SET, key, extras(5, 50), value, datatype=XATTR)
        assert reply.status == status, name
    assert kv.get(key).value == body
    assert kv.call(Op.DELETE, key).status == Status.SUCCESS


def test_number_of_attributes_is_bounded(kv, key):
    most = {f"a{number}": "1" for number in range(8192)}
    reply = kv.call(SET, key, extras(5, 50), stored(most, b"{}"), datatype=XATTR)
    assert reply.status == Status.SUCCESS
    reply = kv.call(SET, key, extras(6, 60), stored({**most, "b": "1"}, b"{}"), datatype=XATTR)
    assert reply.status == Status.TOO_BIG and b"at most 8192 extended attributes" in reply.value
    pair = struct.pack(">I", 3) + b"a\0\0"
    million = struct.pack(">I", 1_000_000 * len(pair)) + pair * 1_000_000
    assert kv.call(SET, key, extras(6, 60), million, datatype=XATTR).status == Status.TOO_BIG
    assert kv.get(key).value == b"{}"
    assert kv.call(Op.DELETE, key).status == Status.SUCCESS


def test_attributes_need_their_agreement(node, bucket, key):
    with node.connect(bucket, USUAL_FEATURES) as plain:
        reply = plain.call(SET, key, extras(5, 50), stored({"a": "1"}), datatype=XATTR)
        assert reply.status == Status.INVALID


def test_deletion_has_system_attributes_alone(kv, key):
    for value in (stored({"_s": "1", "u": "2"}), stored({"_s": "1"}, b"{}")):
        reply = kv.call(DELETE, key, extras(5, 50), value, datatype=XATTR)
        assert reply.status == Status.INVALID
    assert kv.call(DELETE, key, extras(5, 50), b"value").status == Status.INVALID
    attributes.write(kv, key, {"_s": "1"}, op=DELETE, revision=5)
    assert meta(kv, key)[0] == 1 and meta(kv, key)[4] == XATTR


# GET_RANDOM_KEY


def test_random_key_is_a_document_with_its_body(node):
    node.create_bucket("random")
    with node.connect("random", attributes.FEATURES) as kv:
        assert kv.call(RANDOM_KEY).status == Status.NOT_FOUND
        attributes.write(kv, b"only", {"u": "1"}, b'{"a":1}', flags=9)
        reply = kv.call(RANDOM_KEY)
        assert reply.status == Status.SUCCESS
        assert (reply.key, reply.value, reply.flags) == (b"only", b'{"a":1}', 9)
        assert reply.datatype == 1 and reply.cas == kv.get(b"only").cas
        kv.call(Op.DELETE, b"only")
        assert kv.call(RANDOM_KEY).status == Status.NOT_FOUND


def test_random_keys_are_different_ones(node):
    node.create_bucket("sampled")
    keys = [b"key-%d" % number for number in range(200)]
    with node.connect("sampled") as kv:
        for each in keys:
            kv.set(each, b"1")
        found = {kv.call(RANDOM_KEY).key for _ in range(100)}
    assert found <= set(keys) and len(found) > 10
