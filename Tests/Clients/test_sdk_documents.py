"""Every document operation of the Python SDK, in success and in failure."""

import datetime
import time

import pytest
from couchbase.exceptions import (
    CasMismatchException,
    CouchbaseException,
    DeltaInvalidException,
    DocumentExistsException,
    DocumentLockedException,
    DocumentNotFoundException,
    DocumentNotLockedException,
    InvalidArgumentException,
    TimeoutException,
)
from couchbase.options import (
    DecrementOptions,
    DeltaValue,
    GetOptions,
    IncrementOptions,
    InsertOptions,
    RemoveOptions,
    ReplaceOptions,
    SignedInt64,
    UpsertOptions,
)
from couchbase.transcoder import RawBinaryTranscoder, RawStringTranscoder

from rig import sdk

MIB = 1 << 20
SECOND = datetime.timedelta(seconds=1)
BINARY = RawBinaryTranscoder()


@pytest.fixture(scope="module")
def collection(node, bucket):
    cluster = sdk.connect(node)
    yield cluster.bucket(bucket).default_collection()
    cluster.close()


@pytest.fixture
def name(request):
    return request.node.name


def expire(collection, name):
    """Waits until a document of one second is gone; generous to a busy machine."""
    deadline = time.monotonic() + 10
    while collection.exists(name).exists:
        assert time.monotonic() < deadline, f"{name} never expired"
        time.sleep(0.05)


# One document


def test_insert_stores_a_document_once(collection, name):
    assert collection.insert(name, {"n": 1}).cas != 0
    with pytest.raises(DocumentExistsException):
        collection.insert(name, {"n": 2})
    assert collection.get(name).content_as[dict] == {"n": 1}


def test_upsert_replaces_an_existing_document(collection, name):
    first = collection.upsert(name, {"n": 1})
    second = collection.upsert(name, {"n": 2})
    assert second.cas > first.cas
    assert collection.get(name).content_as[dict] == {"n": 2}


def test_replace_needs_a_document(collection, name):
    with pytest.raises(DocumentNotFoundException):
        collection.replace(name, {"n": 1})
    collection.insert(name, {"n": 1})
    collection.replace(name, {"n": 2})
    assert collection.get(name).content_as[dict] == {"n": 2}


def test_remove_removes(collection, name):
    collection.insert(name, {})
    assert collection.remove(name).cas != 0
    with pytest.raises(DocumentNotFoundException):
        collection.get(name)
    with pytest.raises(DocumentNotFoundException):
        collection.remove(name)


def test_removed_document_can_be_inserted_again(collection, name):
    collection.insert(name, {"n": 1})
    collection.remove(name)
    collection.insert(name, {"n": 2})
    assert collection.get(name).content_as[dict] == {"n": 2}


def test_get_of_a_missing_document_is_not_found(collection, name):
    with pytest.raises(DocumentNotFoundException):
        collection.get(name)


def test_exists_reports_whether_a_document_exists(collection, name):
    assert collection.exists(name).exists is False
    cas = collection.insert(name, {}).cas
    found = collection.exists(name)
    assert found.exists is True and found.cas == cas
    collection.remove(name)
    assert collection.exists(name).exists is False


@pytest.mark.parametrize(
    "value",
    [{}, [], [1, [2, {"three": 3.5}]], "text", 0, -1.5e300, True, None, {"ü": "ÿ€😀"}],
    ids=str,
)
def test_json_values_are_read_back_equal(collection, name, value):
    collection.upsert(name, value)
    assert collection.get(name).value == value


def test_text_and_bytes_are_read_back_equal(collection, name):
    text = "neither {json} nor\0quoted"
    collection.upsert(name, text, UpsertOptions(transcoder=RawStringTranscoder()))
    found = collection.get(name, GetOptions(transcoder=RawStringTranscoder()))
    assert found.content_as[str] == text
    octets = bytes(range(256))
    collection.upsert(name, octets, UpsertOptions(transcoder=BINARY))
    assert collection.get(name, GetOptions(transcoder=BINARY)).content_as[bytes] == octets


def test_mutation_tokens_have_growing_seqnos(collection, name):
    first = collection.upsert(name, {"n": 1}).mutation_token()
    second = collection.upsert(name, {"n": 2}).mutation_token()
    assert first.partition_id == second.partition_id
    assert first.partition_uuid == second.partition_uuid != 0
    assert second.sequence_number > first.sequence_number


# CAS


def test_stale_cas_changes_nothing(collection, name):
    stale = collection.insert(name, {"n": 1}).cas
    fresh = collection.upsert(name, {"n": 2}).cas
    with pytest.raises(CasMismatchException):
        collection.replace(name, {"n": 3}, ReplaceOptions(cas=stale))
    with pytest.raises(CasMismatchException):
        collection.remove(name, RemoveOptions(cas=stale))
    assert collection.get(name).content_as[dict] == {"n": 2}
    collection.replace(name, {"n": 4}, ReplaceOptions(cas=fresh))
    cas = collection.get(name).cas
    collection.remove(name, RemoveOptions(cas=cas))
    assert collection.exists(name).exists is False


# Expiry


def test_expired_document_is_gone(collection, name):
    collection.upsert(name, {}, UpsertOptions(expiry=SECOND))
    assert collection.exists(name).exists is True
    expire(collection, name)
    with pytest.raises(DocumentNotFoundException):
        collection.get(name)
    collection.insert(name, {"again": True})


def test_insert_may_expire_and_an_upsert_clears_it(collection, name):
    collection.insert(name, {}, InsertOptions(expiry=SECOND))
    collection.upsert(name, {"stays": True})
    time.sleep(2.1)
    assert collection.get(name).content_as[dict] == {"stays": True}


def test_expiry_may_be_preserved(collection, name):
    collection.upsert(name, {}, UpsertOptions(expiry=SECOND))
    collection.upsert(name, {"n": 2}, UpsertOptions(preserve_expiry=True))
    expire(collection, name)


def test_touch_sets_an_expiry(collection, name):
    collection.insert(name, {})
    before = collection.get(name).cas
    assert collection.touch(name, SECOND).cas != before
    expire(collection, name)
    with pytest.raises(DocumentNotFoundException):
        collection.touch(name, SECOND)


def test_touch_without_expiry_clears_the_expiry(collection, name):
    collection.upsert(name, {}, UpsertOptions(expiry=SECOND))
    collection.touch(name, datetime.timedelta(0))
    time.sleep(2.1)
    assert collection.exists(name).exists is True


def test_get_and_touch_reads_and_sets_an_expiry(collection, name):
    collection.insert(name, {"n": 1})
    assert collection.get_and_touch(name, SECOND).content_as[dict] == {"n": 1}
    expire(collection, name)
    with pytest.raises(DocumentNotFoundException):
        collection.get_and_touch(name, SECOND)


def test_expiry_beyond_thirty_days_is_a_date(collection, name):
    collection.upsert(name, {}, UpsertOptions(expiry=datetime.timedelta(days=60)))
    assert collection.exists(name).exists is True


# Locks


def test_locked_document_refuses_writes_of_other_clients_but_not_reads(node, bucket, name):
    cluster = sdk.connect(node, kv_seconds=1)
    collection = cluster.bucket(bucket).default_collection()
    collection.insert(name, {"n": 1})
    locked = collection.get_and_lock(name, datetime.timedelta(seconds=15))
    assert locked.content_as[dict] == {"n": 1}
    assert collection.get(name).content_as[dict] == {"n": 1}
    # The client retries until its timeout, and reports the reason.
    with pytest.raises((DocumentLockedException, TimeoutException)):
        collection.upsert(name, {"n": 2})
    with pytest.raises((DocumentLockedException, TimeoutException)):
        collection.get_and_lock(name, datetime.timedelta(seconds=15))
    collection.replace(name, {"n": 3}, ReplaceOptions(cas=locked.cas))
    collection.upsert(name, {"n": 4})
    cluster.close()


def test_unlock_needs_the_locks_cas(node, bucket, name):
    cluster = sdk.connect(node, kv_seconds=1)
    collection = cluster.bucket(bucket).default_collection()
    collection.insert(name, {})
    locked = collection.get_and_lock(name, datetime.timedelta(seconds=15))
    with pytest.raises((CasMismatchException, DocumentLockedException, TimeoutException)):
        collection.unlock(name, locked.cas + 1)
    collection.unlock(name, locked.cas)
    collection.upsert(name, {"free": True})
    with pytest.raises(DocumentNotLockedException):
        collection.unlock(name, collection.get(name).cas)
    with pytest.raises(DocumentNotFoundException):
        collection.unlock("no such document", 1)
    cluster.close()


def test_write_to_a_locked_document_succeeds_once_the_lock_has_ended(collection, name):
    """The client retries the write until then."""
    collection.insert(name, {})
    start = time.monotonic()
    collection.get_and_lock(name, SECOND)
    collection.upsert(name, {"free": True})
    assert time.monotonic() - start >= 1
    assert collection.get(name).content_as[dict] == {"free": True}


# Counters and pieces


def test_counters_count(collection, name):
    binary = collection.binary()
    initial = IncrementOptions(initial=SignedInt64(40))
    assert binary.increment(name, initial).content == 40
    assert binary.increment(name, IncrementOptions(delta=DeltaValue(2))).content == 42
    assert binary.decrement(name, DecrementOptions(delta=DeltaValue(40))).content == 2
    assert binary.decrement(name, DecrementOptions(delta=DeltaValue(40))).content == 0


def test_counter_without_an_initial_value_needs_a_document(collection, name):
    binary = collection.binary()
    with pytest.raises(DocumentNotFoundException):
        binary.increment(name, IncrementOptions(initial=SignedInt64(-1)))
    with pytest.raises(DocumentNotFoundException):
        binary.decrement(name, DecrementOptions(initial=SignedInt64(-1)))


def test_only_numbers_can_be_counted(collection, name):
    collection.upsert(name, {"not": "a number"})
    with pytest.raises(DeltaInvalidException):
        collection.binary().increment(name)


def test_append_and_prepend_add_to_both_ends(collection, name):
    collection.upsert(name, b"b", UpsertOptions(transcoder=BINARY))
    collection.binary().append(name, b"c")
    collection.binary().prepend(name, b"a")
    assert collection.get(name, GetOptions(transcoder=BINARY)).content_as[bytes] == b"abc"


def test_append_and_prepend_need_a_document(collection, name):
    with pytest.raises(DocumentNotFoundException):
        collection.binary().append(name, b"x")
    with pytest.raises(DocumentNotFoundException):
        collection.binary().prepend(name, b"x")


# Many at once


def test_multi_operations(collection, name):
    documents = {f"{name}-{number}": {"n": number} for number in range(200)}
    keys = list(documents)
    assert collection.upsert_multi(documents).all_ok
    found = collection.get_multi(keys)
    assert found.all_ok
    assert {key: result.content_as[dict] for key, result in found.results.items()} == documents
    assert collection.exists_multi(keys).all_ok
    assert collection.touch_multi(keys, datetime.timedelta(hours=1)).all_ok
    assert collection.replace_multi({key: {"n": -1} for key in keys}).all_ok
    assert collection.remove_multi(keys).all_ok
    missing = collection.get_multi(keys)
    assert not missing.all_ok
    assert len(missing.exceptions) == len(keys)
    assert all(isinstance(e, DocumentNotFoundException) for e in missing.exceptions.values())


def test_multi_insert_reports_the_failed_keys(collection, name):
    collection.insert(f"{name}-1", {})
    result = collection.insert_multi({f"{name}-0": {}, f"{name}-1": {}})
    assert list(result.results) == [f"{name}-0"]
    assert isinstance(result.exceptions[f"{name}-1"], DocumentExistsException)


def test_multi_locks_and_unlocks(collection, name):
    keys = [f"{name}-{number}" for number in range(20)]
    collection.upsert_multi({key: {} for key in keys})
    locked = collection.get_and_lock_multi(keys, datetime.timedelta(seconds=15))
    assert locked.all_ok
    freed = collection.unlock_multi({key: found.cas for key, found in locked.results.items()})
    assert set(freed) == set(keys) and not any(freed.values())
    assert collection.upsert_multi({key: {} for key in keys}).all_ok


def test_multi_counters_and_pieces(collection, name):
    binary = collection.binary()
    numbers = [f"{name}-n{number}" for number in range(20)]
    counted = binary.increment_multi(numbers)
    assert counted.all_ok
    assert binary.increment_multi(numbers).all_ok
    assert binary.decrement_multi(numbers).all_ok
    pieces = [f"{name}-p{number}" for number in range(20)]
    for key in pieces:
        collection.upsert(key, b"-", UpsertOptions(transcoder=BINARY))
    assert binary.append_multi({key: b">" for key in pieces}).all_ok
    assert binary.prepend_multi({key: b"<" for key in pieces}).all_ok
    found = collection.get(pieces[0], GetOptions(transcoder=BINARY))
    assert found.content_as[bytes] == b"<->"


# Bounds


def test_value_of_twenty_mebibytes_fits(node, bucket, name):
    cluster = sdk.connect(node, kv_seconds=30)
    collection = cluster.bucket(bucket).default_collection()
    value = bytes(20 * MIB)
    collection.upsert(name, value, UpsertOptions(transcoder=BINARY))
    assert collection.get(name, GetOptions(transcoder=BINARY)).content_as[bytes] == value
    collection.remove(name)
    cluster.close()


def test_larger_value_is_refused_and_the_connection_stays_open(node, bucket, name):
    cluster = sdk.connect(node, kv_seconds=30)
    collection = cluster.bucket(bucket).default_collection()
    collection.upsert("beside", {"n": 1})
    # The client has no name of its own for this: 104 is "value too large".
    with pytest.raises(CouchbaseException, match="ec=104"):
        collection.upsert(name, bytes(20 * MIB + 1), UpsertOptions(transcoder=BINARY))
    assert collection.exists(name).exists is False
    assert collection.get("beside").content_as[dict] == {"n": 1}
    cluster.close()


def test_key_of_250_bytes_fits_and_a_longer_one_does_not(collection):
    key = "k" * 250
    collection.upsert(key, {"long": True})
    assert collection.get(key).content_as[dict] == {"long": True}
    with pytest.raises(InvalidArgumentException):
        collection.upsert("k" * 251, {})


def test_keys_are_any_text(collection):
    for key in ("ключ", "鍵", "🔑", "with space", "tab\t", "a/b%2Fc?d=e&f#g", "é" * 125):
        collection.upsert(key, {"key": key})
        assert collection.get(key).content_as[dict] == {"key": key}
    # One composed, one of two code points: different keys.
    assert collection.exists("\u00e9").exists is False
    collection.upsert("e\u0301", {})
    assert collection.exists("\u00e9").exists is False


def test_empty_key_is_refused(collection):
    with pytest.raises(InvalidArgumentException):
        collection.upsert("", {})
