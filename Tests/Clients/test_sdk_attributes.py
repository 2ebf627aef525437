"""Extended attributes with the Python SDK: kept, expanded, virtual, and on tombstones."""

import datetime

import couchbase.subdocument as SD
import pytest
from couchbase.exceptions import (
    CouchbaseException,
    DocumentExistsException,
    DocumentNotFoundException,
    PathNotFoundException,
)
from couchbase.options import LookupInOptions, MutateInOptions
from couchbase.subdocument import LookupInMacro, MutationMacro, convert_macro_cas_to_cas

from rig import sdk
from rig.subdocument import crc32c_text

HOUR = datetime.timedelta(hours=1)
DELETED = LookupInOptions(access_deleted=True)


@pytest.fixture(scope="module")
def collection(node, bucket):
    cluster = sdk.connect(node)
    yield cluster.bucket(bucket).default_collection()
    cluster.close()


@pytest.fixture
def name(request, collection):
    """The key of a document with one attribute of the system and one of a user."""
    collection.upsert(request.node.name, {"n": 1})
    specs = [SD.upsert("_system", {"s": 1}, xattr=True), SD.upsert("user", {"u": 1}, xattr=True)]
    collection.mutate_in(request.node.name, specs)
    return request.node.name


def attributes(collection, name, options=None):
    """The two attributes; None for one that is missing."""
    specs = [SD.get("_system", xattr=True), SD.get("user", xattr=True)]
    found = collection.lookup_in(name, specs, options or LookupInOptions())
    values = []
    for index in range(2):
        try:
            values.append(found.content_as[dict](index))
        except PathNotFoundException:
            values.append(None)
    return values


BOTH = [{"s": 1}, {"u": 1}]


def test_attributes_are_beside_the_document(collection, name):
    assert attributes(collection, name) == BOTH
    assert collection.get(name).content_as[dict] == {"n": 1}
    specs = [SD.get("_system.s", xattr=True), SD.exists("_none", xattr=True), SD.get("n")]
    found = collection.lookup_in(name, specs)
    assert found.content_as[int](0) == 1 and not found.exists(1) and found.content_as[int](2) == 1


@pytest.mark.parametrize("write", ["upsert", "replace", "touch", "mutate_in"])
def test_attributes_are_kept_by_a_write_of_the_document(collection, name, write):
    if write == "touch":
        collection.touch(name, HOUR)
    elif write == "mutate_in":
        collection.mutate_in(name, [SD.upsert("n", 2)])
    else:
        getattr(collection, write)(name, {"n": 2})
    assert attributes(collection, name) == BOTH


def test_attributes_are_kept_by_append_and_counters(collection):
    binary = collection.binary()
    counter, text = "attributes-counter", "attributes-text"
    binary.increment(counter)
    collection.upsert(text, "text")
    for key in (counter, text):
        collection.mutate_in(key, [SD.upsert("user", {"u": 1}, xattr=True)])
    binary.increment(counter)
    binary.append(text, " and more")
    for key in (counter, text):
        assert attributes(collection, key) == [None, {"u": 1}]


def test_every_kind_of_write_works_in_an_attribute(collection, name):
    specs = [
        SD.upsert("user.a.b", 1, xattr=True, create_parents=True),
        SD.array_append("user.list", 1, 2, xattr=True, create_parents=True),
        SD.array_prepend("user.list", 0, xattr=True),
        SD.array_insert("user.list[1]", 9, xattr=True),
        SD.array_addunique("user.list", 3, xattr=True),
        SD.increment("user.count", 5, xattr=True),
        SD.insert("user.x", None, xattr=True),
        SD.replace("user.u", 2, xattr=True),
        SD.remove("_system.s", xattr=True),
    ]
    written = collection.mutate_in(name, specs)
    assert written.content_as[int](5) == 5
    changed = {"u": 2, "a": {"b": 1}, "list": [0, 9, 1, 2, 3], "count": 5, "x": None}
    assert attributes(collection, name) == [{}, changed]
    collection.mutate_in(name, [SD.remove("user", xattr=True)])
    assert attributes(collection, name) == [{}, None]


# Macros


def test_macros_are_expanded_to_what_the_change_has(collection, name):
    specs = [
        SD.upsert("_m.cas", MutationMacro.cas(), create_parents=True),
        SD.insert("_m.seqno", MutationMacro.seq_no(), create_parents=True),
        SD.upsert("_m.sum", MutationMacro.value_crc32c(), create_parents=True),
        SD.array_append("_m.list", MutationMacro.cas(), create_parents=True),
    ]
    written = collection.mutate_in(name, specs)
    found = collection.lookup_in(name, [SD.get("_m", xattr=True)]).content_as[dict](0)
    assert convert_macro_cas_to_cas(found["cas"]) == written.cas
    assert int(found["seqno"], 16) == written.mutation_token().sequence_number
    assert len(found["cas"]) == len(found["seqno"]) == 18
    with_body = collection.lookup_in(name, [SD.get(LookupInMacro.document(), xattr=True)])
    assert found["sum"] == with_body.content_as[dict](0)["value_crc32c"]
    assert found["sum"] == crc32c_text(b'{"n":1}') or found["sum"] == crc32c_text(b'{"n": 1}')
    assert found["list"] == [found["cas"]]
    # The text alone is no macro.
    specs = [SD.upsert("_m.text", "${Mutation.CAS}", xattr=True)]
    collection.mutate_in(name, specs)
    found = collection.lookup_in(name, [SD.get("_m.text", xattr=True)])
    assert found.content_as[str](0) == "${Mutation.CAS}"


def test_unknown_macro_is_refused(collection, name):
    with pytest.raises(CouchbaseException):
        collection.mutate_in(name, [SD.upsert("_x", MutationMacro("${Mutation.Nothing}"))])
    assert attributes(collection, name) == BOTH


# Virtual attributes


def test_virtual_attributes_describe_the_document(collection, name):
    written = collection.mutate_in(name, [SD.upsert("n", 2)], MutateInOptions(expiry=HOUR))
    names = [
        LookupInMacro.cas(),
        LookupInMacro.seq_no(),
        LookupInMacro.rev_id(),
        LookupInMacro.value_size_bytes(),
        LookupInMacro.is_deleted(),
        LookupInMacro.last_modified(),
        LookupInMacro.expiry_time(),
        "$XTOC",
        LookupInMacro.document(),
    ]
    found = collection.lookup_in(name, [SD.get(each, xattr=True) for each in names])
    read = [found.content_as[lambda value: value](index) for index in range(len(names))]
    cas, seqno, revision, size, is_deleted, modified, expiry, listed, document = read
    assert int(cas, 16) == written.cas
    assert int(seqno, 16) == written.mutation_token().sequence_number
    assert int(revision) >= 3 and is_deleted is False
    # The client may write a blank.
    assert size in (7, 8)
    assert int(modified) == written.cas // 1_000_000_000
    now = datetime.datetime.now().timestamp()
    assert 0 < expiry - now <= 3700
    assert sorted(listed) == ["_system", "user"]
    assert document["CAS"] == cas and document["exptime"] == expiry


@pytest.mark.parametrize("path", ["$document.CAS", "$document", "$XTOC"])
def test_virtual_attribute_is_not_written(collection, name, path):
    with pytest.raises(CouchbaseException):
        collection.mutate_in(name, [SD.upsert(path, 1, xattr=True)])


def test_unknown_virtual_attribute_is_refused(collection, name):
    with pytest.raises(CouchbaseException):
        collection.lookup_in(name, [SD.get("$nothing", xattr=True)]).content_as[str](0)


# Tombstones


def test_removal_keeps_the_system_attributes_and_drops_the_users(collection, name):
    collection.remove(name)
    with pytest.raises(DocumentNotFoundException):
        attributes(collection, name)
    assert attributes(collection, name, DELETED) == [{"s": 1}, None]
    found = collection.lookup_in(name, [SD.get("$document.deleted", xattr=True)], DELETED)
    assert found.content_as[lambda value: value](0) is True


def test_tombstone_is_changed_and_a_new_document_is_without_its_attributes(collection, name):
    collection.remove(name)
    specs = [SD.upsert("_system", {"s": 2}, xattr=True)]
    with pytest.raises(DocumentNotFoundException):
        collection.mutate_in(name, specs)
    collection.mutate_in(name, specs, MutateInOptions(access_deleted=True))
    assert attributes(collection, name, DELETED) == [{"s": 2}, None]
    assert not collection.exists(name).exists
    collection.insert(name, {"n": 3})
    assert attributes(collection, name) == [None, None]


def test_document_is_created_as_a_tombstone(collection, name):
    key = f"{name}-staged"
    specs = [SD.upsert("_system", {"s": 1}, xattr=True), SD.upsert("user", {"u": 1}, xattr=True)]
    staged = {
        "access_deleted": True,
        "create_as_deleted": True,
        "store_semantics": SD.StoreSemantics.INSERT,
    }
    collection.mutate_in(key, specs, **staged)
    assert not collection.exists(key).exists
    # A tombstone that is created so keeps the attributes of users, too.
    assert attributes(collection, key, DELETED) == BOTH
    with pytest.raises(DocumentExistsException):
        collection.mutate_in(key, specs, **staged)
