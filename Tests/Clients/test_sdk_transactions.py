"""Transactions of the official Python client, on keys in each state that a key can be in.

A transaction stages an insert as a tombstone with attributes, over the tombstone of a deleted document
too, and commits it by reviving the tombstone.
"""

import datetime
import time

import pytest
from couchbase.exceptions import (
    DocumentExistsException,
    DocumentNotFoundException,
    TransactionFailed,
)
from couchbase.options import (
    TransactionGetOptions,
    TransactionInsertOptions,
    TransactionReplaceOptions,
    UpsertOptions,
)
from couchbase.transcoder import RawBinaryTranscoder

from rig import sdk


@pytest.fixture(scope="module")
def cluster(node, bucket):
    cluster = sdk.connect(node)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def collection(cluster, bucket):
    return cluster.bucket(bucket).default_collection()


@pytest.fixture
def name(request):
    return request.node.name


class Abandoned(Exception):
    """Ends a transaction without a commit."""


def roll_back(cluster, logic):
    def abandoned(context):
        logic(context)
        raise Abandoned

    with pytest.raises(TransactionFailed):
        cluster.transactions.run(abandoned)


def never_used(cluster, collection, key):
    pass


def deleted(cluster, collection, key):
    collection.upsert(key, {"old": True})
    collection.remove(key)


def deleted_twice(cluster, collection, key):
    deleted(cluster, collection, key)
    deleted(cluster, collection, key)


def expired(cluster, collection, key):
    collection.upsert(key, {"old": True}, UpsertOptions(expiry=datetime.timedelta(seconds=1)))
    end = time.monotonic() + 10
    while collection.exists(key).exists:
        assert time.monotonic() < end, "the document does not expire"
        time.sleep(0.1)


def insert_rolled_back(cluster, collection, key):
    roll_back(cluster, lambda context: context.insert(collection, key, {"old": True}))


def deletion_rolled_back_and_deleted(cluster, collection, key):
    collection.upsert(key, {"old": True})
    roll_back(cluster, lambda context: context.remove(context.get(collection, key)))
    collection.remove(key)


def inserted_and_deleted_by_a_transaction(cluster, collection, key):
    cluster.transactions.run(lambda context: context.insert(collection, key, {"old": True}))
    cluster.transactions.run(lambda context: context.remove(context.get(collection, key)))


ABSENT = [
    never_used,
    deleted,
    deleted_twice,
    expired,
    insert_rolled_back,
    deletion_rolled_back_and_deleted,
    inserted_and_deleted_by_a_transaction,
]


@pytest.fixture(params=ABSENT, ids=[state.__name__ for state in ABSENT])
def absent(request, cluster, collection, name):
    """A key without a document."""
    request.param(cluster, collection, name)
    assert not collection.exists(name).exists
    return name


def test_transaction_inserts(cluster, collection, absent):
    attempts = []

    def logic(context):
        attempts.append(absent)
        context.insert(collection, absent, {"n": 1})
        assert context.get(collection, absent).content_as[dict] == {"n": 1}
        # Nothing is visible before the commit.
        assert not collection.exists(absent).exists

    result = cluster.transactions.run(logic)
    assert result.unstaging_complete and len(attempts) == 1
    assert collection.get(absent).content_as[dict] == {"n": 1}
    # The document is a usual one.
    collection.replace(absent, {"n": 2})
    collection.remove(absent)


def test_transaction_replaces_what_it_inserted(cluster, collection, absent):
    def logic(context):
        found = context.insert(collection, absent, {"n": 1})
        found = context.replace(found, {"n": 2})
        context.replace(context.get(collection, absent), {"n": 3})

    cluster.transactions.run(logic)
    assert collection.get(absent).content_as[dict] == {"n": 3}


def test_transaction_removes_what_it_inserted_and_inserts_again(cluster, collection, absent):
    def logic(context):
        context.remove(context.insert(collection, absent, {"n": 1}))
        with pytest.raises(DocumentNotFoundException):
            context.get(collection, absent)
        context.insert(collection, absent, {"n": 2})

    cluster.transactions.run(logic)
    assert collection.get(absent).content_as[dict] == {"n": 2}


def test_insert_is_rolled_back(cluster, collection, absent):
    roll_back(cluster, lambda context: context.insert(collection, absent, {"n": 1}))
    assert not collection.exists(absent).exists
    collection.insert(absent, {"n": 2})
    assert collection.get(absent).content_as[dict] == {"n": 2}


def test_transaction_replaces_and_removes_documents(cluster, collection, name):
    other = name + "-other"
    collection.upsert(name, {"n": 1})
    collection.upsert(other, {"n": 1})

    def logic(context):
        context.replace(context.get(collection, name), {"n": 2})
        context.remove(context.get(collection, other))

    roll_back(cluster, logic)
    assert collection.get(name).content_as[dict] == {"n": 1}
    assert collection.exists(other).exists
    cluster.transactions.run(logic)
    assert collection.get(name).content_as[dict] == {"n": 2}
    assert not collection.exists(other).exists


def test_insert_of_an_existing_document_fails(cluster, collection, name):
    collection.upsert(name, {"n": 1})

    def logic(context):
        with pytest.raises(DocumentExistsException):
            context.insert(collection, name, {"n": 2})
        raise Abandoned

    with pytest.raises(TransactionFailed):
        cluster.transactions.run(logic)
    assert collection.get(name).content_as[dict] == {"n": 1}


def test_transaction_stores_binary_documents(cluster, collection, absent):
    raw = RawBinaryTranscoder()

    def logic(context):
        context.insert(collection, absent, b"\0\1", TransactionInsertOptions(transcoder=raw))
        found = context.get(collection, absent, TransactionGetOptions(transcoder=raw))
        assert found.content_as[bytes] == b"\0\1"
        context.replace(found, b"\xff", TransactionReplaceOptions(transcoder=raw))

    cluster.transactions.run(logic)
    assert collection.get(absent, transcoder=raw).content_as[bytes] == b"\xff"
