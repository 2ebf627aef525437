"""Parts of documents with the Python SDK: every specification and every error."""

import datetime
import json

import couchbase.subdocument as SD
import pytest
from couchbase.durability import (
    ClientDurability,
    DurabilityLevel,
    PersistToExtended,
    ServerDurability,
)
from couchbase.exceptions import (
    CasMismatchException,
    DeltaInvalidException,
    DocumentExistsException,
    DocumentNotFoundException,
    DocumentNotJsonException,
    DurabilityImpossibleException,
    InvalidArgumentException,
    InvalidValueException,
    NumberTooBigException,
    PathExistsException,
    PathInvalidException,
    PathMismatchException,
    PathNotFoundException,
    PathTooBigException,
    ValueTooDeepException,
)
from couchbase.options import GetOptions, MutateInOptions, UpsertOptions
from couchbase.transcoder import RawBinaryTranscoder

from rig import sdk

HOUR = datetime.timedelta(hours=1)
LARGEST, SMALLEST = (1 << 63) - 1, -(1 << 63)
DOCUMENT = {
    "name": "divan",
    "n": 41,
    "list": [1, "two", {"three": 3}, [4]],
    "deep": {"a": {"b": {"c": True}}},
    "none": None,
    "dots.and`ticks": "escaped",
    "größe": "ü",
    "empty": {},
}
LEVELS = [
    DurabilityLevel.MAJORITY,
    DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE,
    DurabilityLevel.PERSIST_TO_MAJORITY,
]


@pytest.fixture(scope="module")
def collection(node, bucket):
    cluster = sdk.connect(node)
    yield cluster.bucket(bucket).default_collection()
    cluster.close()


@pytest.fixture
def name(request, collection):
    """The key of a document with the content of `DOCUMENT`."""
    collection.upsert(request.node.name, DOCUMENT)
    return request.node.name


def content(collection, name):
    return collection.get(name).content_as[dict]


def values(found, count):
    """The values of a lookup, of any type."""
    return [found.content_as[lambda value: value](index) for index in range(count)]


# Reading

PATHS = {
    "name": "divan",
    "n": 41,
    "list": DOCUMENT["list"],
    "list[0]": 1,
    "list[1]": "two",
    "list[-1]": [4],
    "list[2].three": 3,
    "list[3][0]": 4,
    "deep.a.b.c": True,
    "none": None,
    "`dots.and``ticks`": "escaped",
    "größe": "ü",
    "empty": {},
}


def test_get_returns_the_value_at_each_path(collection, name):
    found = collection.lookup_in(name, [SD.get(path) for path in PATHS])
    assert values(found, len(PATHS)) == list(PATHS.values())
    assert found.cas == collection.get(name).cas


def test_exists_and_count(collection, name):
    specs = [SD.exists("deep.a"), SD.exists("none"), SD.exists("deep.x"), SD.exists("list[9]")]
    found = collection.lookup_in(name, specs)
    assert [found.exists(index) for index in range(4)] == [True, True, False, False]
    found = collection.lookup_in(name, [SD.count("list"), SD.count("deep"), SD.count("")])
    assert values(found, 3) == [4, 1, len(DOCUMENT)]


def test_whole_document_beside_paths(collection, name):
    found = collection.lookup_in(name, [SD.get("n"), SD.get_full()])
    assert values(found, 2) == [41, DOCUMENT]


def test_sixteen_paths_are_read_and_seventeen_refused(collection, name):
    found = collection.lookup_in(name, [SD.get("n")] * 16)
    assert values(found, 16) == [41] * 16
    with pytest.raises(InvalidArgumentException):
        collection.lookup_in(name, [SD.get("n")] * 17)


@pytest.mark.parametrize(
    "spec, error",
    [
        (SD.get("missing"), PathNotFoundException),
        (SD.get("list[4]"), PathNotFoundException),
        (SD.get("deep.a.x.y"), PathNotFoundException),
        (SD.get("n.x"), PathMismatchException),
        (SD.get("list.x"), PathMismatchException),
        (SD.get("deep[0]"), PathMismatchException),
        (SD.count("n"), PathMismatchException),
        (SD.get("deep..a"), PathInvalidException),
        (SD.get("list["), PathInvalidException),
        (SD.get("list[x]"), PathInvalidException),
    ],
)
def test_lookup_reports_an_error_for_its_path_alone(collection, name, spec, error):
    found = collection.lookup_in(name, [SD.get("n"), spec, SD.exists("name")])
    assert found.content_as[int](0) == 41 and found.exists(2)
    with pytest.raises(error):
        found.content_as[str](1)


def test_lookup_of_a_missing_document(collection):
    with pytest.raises(DocumentNotFoundException):
        collection.lookup_in("no such document", [SD.get("n")])


def test_lookup_in_a_value_that_is_not_json_is_refused(collection, name):
    binary = RawBinaryTranscoder()
    collection.upsert(name, b"\0\1{", UpsertOptions(transcoder=binary))
    found = collection.lookup_in(name, [SD.get("n")])
    with pytest.raises(DocumentNotJsonException):
        found.content_as[str](0)
    with pytest.raises(DocumentNotJsonException):
        collection.mutate_in(name, [SD.upsert("n", 1)])


def test_replica_reads_of_a_single_copy_are_answered_by_it(collection, name):
    found = collection.lookup_in_any_replica(name, [SD.get("n"), SD.exists("x")])
    assert found.content_as[int](0) == 41 and not found.exists(1) and not found.is_replica
    (found,) = collection.lookup_in_all_replicas(name, [SD.get("n")])
    assert found.content_as[int](0) == 41


def test_get_with_expiry_and_projections(collection, name):
    collection.touch(name, HOUR)
    found = collection.get(name, GetOptions(with_expiry=True))
    assert found.content_as[dict] == DOCUMENT
    assert found.expiry_time > datetime.datetime.now()
    found = collection.get(name, GetOptions(project=["n", "deep.a.b"]))
    assert found.content_as[dict] == {"n": 41, "deep": {"a": {"b": {"c": True}}}}


# Writing

WRITES = [
    ([SD.insert("new", {"x": [1]})], {"new": {"x": [1]}}),
    ([SD.insert("p.q.r", 1, create_parents=True)], {"p": {"q": {"r": 1}}}),
    ([SD.upsert("n", "text"), SD.upsert("u", None)], {"n": "text", "u": None}),
    ([SD.upsert("deep.a.z", 1)], {"deep": {"a": {"b": {"c": True}, "z": 1}}}),
    ([SD.upsert("`x.y`", 1)], {"x.y": 1}),
    ([SD.replace("list[1]", [2])], {"list": [1, [2], {"three": 3}, [4]]}),
    ([SD.replace("none", 0)], {"none": 0}),
    ([SD.remove("list[0]")], {"list": ["two", {"three": 3}, [4]]}),
    ([SD.remove("list[-1]")], {"list": [1, "two", {"three": 3}]}),
    ([SD.array_append("list", 5, [6])], {"list": [*DOCUMENT["list"], 5, [6]]}),
    ([SD.array_append("new.list", 1, create_parents=True)], {"new": {"list": [1]}}),
    ([SD.array_prepend("list", -1, 0)], {"list": [-1, 0, *DOCUMENT["list"]]}),
    ([SD.array_insert("list[1]", "x", "y")], {"list": [1, "x", "y", *DOCUMENT["list"][1:]]}),
    ([SD.array_insert("list[4]", "end")], {"list": [*DOCUMENT["list"], "end"]}),
    ([SD.array_addunique("set", 1, create_parents=True)], {"set": [1]}),
    ([SD.increment("n", 1)], {"n": 42}),
    ([SD.decrement("n", 50)], {"n": -9}),
    ([SD.increment("c.d", 3, create_parents=True)], {"c": {"d": 3}}),
    # A later path finds what an earlier one wrote.
    ([SD.upsert("s", []), SD.array_append("s", 1), SD.array_addunique("s", 2)], {"s": [1, 2]}),
]


@pytest.mark.parametrize("specs, changed", WRITES, ids=[str(index) for index in range(len(WRITES))])
def test_write_changes_its_paths_alone(collection, name, specs, changed):
    before = collection.get(name).cas
    written = collection.mutate_in(name, specs)
    found = collection.get(name)
    assert found.content_as[dict] == DOCUMENT | changed
    assert found.cas == written.cas > before


def test_remove_leaves_the_other_members(collection, name):
    collection.mutate_in(name, [SD.remove("deep.a.b"), SD.remove("list")])
    expected = {key: value for key, value in DOCUMENT.items() if key != "list"}
    assert content(collection, name) == expected | {"deep": {"a": {}}}


def test_whole_document_is_replaced_and_removed(collection, name):
    collection.mutate_in(name, [SD.replace("", {"whole": True})])
    assert content(collection, name) == {"whole": True}
    collection.mutate_in(name, [SD.remove("")])
    assert not collection.exists(name).exists


def test_counter_returns_its_number_up_to_the_limits_of_64_bits(collection, name):
    specs = [SD.upsert("up", LARGEST - 1), SD.upsert("down", SMALLEST + 1)]
    collection.mutate_in(name, specs)
    written = collection.mutate_in(name, [SD.increment("up", 1), SD.decrement("down", 1)])
    assert written.content_as[int](0) == LARGEST and written.content_as[int](1) == SMALLEST
    for spec in (SD.increment("up", 1), SD.decrement("down", 1)):
        with pytest.raises(InvalidValueException):
            collection.mutate_in(name, [spec])
    assert content(collection, name)["up"] == LARGEST


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"x": value}
    return value


ERRORS = [
    (SD.insert("n", 1), PathExistsException),
    (SD.insert("x.y", 1), PathNotFoundException),
    (SD.upsert("x.y", 1), PathNotFoundException),
    (SD.replace("x", 1), PathNotFoundException),
    (SD.remove("x"), PathNotFoundException),
    (SD.remove("list[7]"), PathNotFoundException),
    (SD.array_append("x", 1), PathNotFoundException),
    (SD.array_insert("list[9]", 1), PathNotFoundException),
    (SD.increment("x.y", 1), PathNotFoundException),
    (SD.upsert("list.x", 1), PathMismatchException),
    (SD.upsert("n.x", 1, create_parents=True), PathMismatchException),
    (SD.array_append("n", 1), PathMismatchException),
    (SD.array_prepend("deep", 1), PathMismatchException),
    # The array has members that are not plain values.
    (SD.array_addunique("list", 5), PathMismatchException),
    (SD.increment("name", 1), PathMismatchException),
    (SD.upsert("a..b", 1), PathInvalidException),
    (SD.upsert("`a", 1), PathInvalidException),
    (SD.upsert("list[", 1), PathInvalidException),
    (SD.upsert("x" * 1025, 1), InvalidArgumentException),
    (SD.upsert(".".join(["x"] * 33), 1, create_parents=True), PathTooBigException),
    (SD.upsert("x", nested(40)), ValueTooDeepException),
    (SD.increment("n", 1 << 63), DeltaInvalidException),
]


@pytest.mark.parametrize("spec, error", ERRORS, ids=[str(index) for index in range(len(ERRORS))])
def test_refused_path_applies_nothing(collection, name, spec, error):
    before = collection.get(name).cas
    with pytest.raises(error):
        collection.mutate_in(name, [SD.upsert("first", 1), spec, SD.upsert("last", 1)])
    found = collection.get(name)
    assert found.content_as[dict] == DOCUMENT and found.cas == before


def test_value_that_is_in_the_set_is_refused(collection, name):
    collection.mutate_in(name, [SD.upsert("set", [1, "a", None])])
    for value in (1, "a", None):
        with pytest.raises(PathExistsException):
            collection.mutate_in(name, [SD.array_addunique("set", value)])
    collection.mutate_in(name, [SD.array_addunique("set", "1")])
    assert content(collection, name)["set"] == [1, "a", None, "1"]


def test_counter_of_a_number_beyond_64_bits_is_refused(collection, name):
    text = json.dumps({"n": LARGEST + 1}).encode()
    collection.upsert(name, text, UpsertOptions(transcoder=RawBinaryTranscoder()))
    with pytest.raises(NumberTooBigException):
        collection.mutate_in(name, [SD.increment("n", 1)])


def test_seventeen_writes_are_refused(collection, name):
    collection.mutate_in(name, [SD.upsert(f"k{number}", number) for number in range(16)])
    with pytest.raises(InvalidArgumentException):
        collection.mutate_in(name, [SD.upsert(f"l{number}", number) for number in range(17)])
    assert "l0" not in content(collection, name)


# The document as a whole


def test_semantics_of_the_store(collection, name):
    key, specs = f"{name}-new", [SD.upsert("n", 1)]
    semantics = SD.StoreSemantics
    with pytest.raises(DocumentNotFoundException):
        collection.mutate_in(key, specs, MutateInOptions(store_semantics=semantics.REPLACE))
    collection.mutate_in(key, specs, MutateInOptions(store_semantics=semantics.INSERT))
    assert content(collection, key) == {"n": 1}
    with pytest.raises(DocumentExistsException):
        collection.mutate_in(key, specs, MutateInOptions(store_semantics=semantics.INSERT))
    upsert = MutateInOptions(store_semantics=semantics.UPSERT)
    collection.mutate_in(key, [SD.upsert("m", 2)], upsert)
    assert content(collection, key) == {"n": 1, "m": 2}
    # An array is the root of a document whose first path appends to the root.
    collection.mutate_in(f"{key}-list", [SD.array_append("", 1, 2)], upsert)
    assert collection.get(f"{key}-list").content_as[list] == [1, 2]


def test_cas_of_another_version_is_refused(collection, name):
    cas = collection.get(name).cas
    written = collection.mutate_in(name, [SD.upsert("n", 1)], MutateInOptions(cas=cas))
    with pytest.raises(CasMismatchException):
        collection.mutate_in(name, [SD.upsert("n", 2)], MutateInOptions(cas=cas))
    assert content(collection, name)["n"] == 1
    collection.mutate_in(name, [SD.upsert("n", 2)], MutateInOptions(cas=written.cas))


def test_expiry_is_set_preserved_and_removed(collection, name):
    def expiry():
        return collection.get(name, GetOptions(with_expiry=True)).expiry_time

    specs = [SD.upsert("n", 1)]
    assert expiry() is None
    collection.mutate_in(name, specs, MutateInOptions(expiry=HOUR))
    first = expiry()
    assert first is not None
    collection.mutate_in(name, specs, MutateInOptions(preserve_expiry=True))
    assert expiry() == first
    collection.mutate_in(name, specs, MutateInOptions(expiry=5 * HOUR))
    assert expiry() - first > 3 * HOUR
    collection.mutate_in(name, specs)
    assert expiry() is None


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_durable_write_of_a_single_copy_is_done(collection, name, level):
    options = MutateInOptions(durability=ServerDurability(level))
    written = collection.mutate_in(name, [SD.increment("n", 1)], options)
    assert written.content_as[int](0) == 42
    assert collection.get(name).cas == written.cas


def test_write_is_persisted_before_it_is_acknowledged(collection, name):
    durability = ClientDurability(persist_to=PersistToExtended.ACTIVE)
    collection.mutate_in(name, [SD.upsert("n", 1)], MutateInOptions(durability=durability))
    assert content(collection, name)["n"] == 1


def test_durable_write_without_copies_is_refused_and_not_applied(node):
    node.create_bucket("lonely-paths", replicaNumber=1)
    cluster = sdk.connect(node)
    lonely = cluster.bucket("lonely-paths").default_collection()
    lonely.upsert("key", {"n": 1})
    options = MutateInOptions(durability=ServerDurability(DurabilityLevel.MAJORITY))
    with pytest.raises(DurabilityImpossibleException):
        lonely.mutate_in("key", [SD.upsert("n", 2)], options)
    assert content(lonely, "key") == {"n": 1}
    cluster.close()
