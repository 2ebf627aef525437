"""Consumers of changes that resume from before a purge of deletions: DCP and the HTTP feed.

The purge is requested (`unsafePurgeBucket`): by itself a node purges deletions after days.
"""

import pytest

from rig import dcp
from rig.changes import Answer, Feed
from rig.dcp import Consumer, Position
from rig.node import Node, wait_until
from rig.wire import Op, Status, vbucket_of

VBUCKETS = 64
ROLLBACK, IGNORE_PURGED, STRICT = 0x23, 0x80, 0x20
SUCCESS = Status.SUCCESS


def make(node, name, **settings):
    node.create_bucket(name, numVBuckets=VBUCKETS, **settings)
    return name


def purge(node, bucket):
    path = f"/pools/default/buckets/{bucket}"
    controllers = node.admin.get(path).json["controllers"]
    assert controllers["purgeDeletes"] == f"{path}/controller/unsafePurgeBucket"
    reply = node.admin.post(controllers["purgeDeletes"])
    assert reply.status == 200, reply


def keys_of(vbucket, count):
    """Keys of one vBucket."""
    found = (key for key in (f"key-{n}" for n in range(100_000)) if in_vbucket(key, vbucket))
    return [next(found) for _ in range(count)]


def in_vbucket(key, vbucket):
    return vbucket_of(key.encode(), VBUCKETS) == vbucket


@pytest.mark.parametrize("kind", ["couchbase", "ephemeral"])
def test_token_from_before_a_purge_is_gone_and_a_new_one_is_valid(node, kind):
    bucket = make(node, f"token-{kind}", bucketType=kind)
    # The deletion is the last change of its vBucket.
    kept, deleted = keys_of(3, 2)
    elsewhere = keys_of(4, 1)[0]
    with node.connect(bucket) as kv:
        for key in (kept, deleted, elsewhere):
            assert kv.set(key, b"{}", vbucket=vbucket_of(key.encode(), VBUCKETS)).status == SUCCESS
        token = Answer(node, bucket).token
        assert kv.call(Op.DELETE, deleted, vbucket=3).status == SUCCESS
    between = Answer(node, bucket, since=token)
    assert between.ids == [deleted] and between.changes[0]["deleted"] is True

    def refusal():
        # A deletion that is not persisted yet is purged by a later request.
        purge(node, bucket)
        answer = Answer(node, bucket, since=token)
        return answer if answer.status == 410 else None

    refused = wait_until(refusal)
    assert "purge of deletions (vBucket 3)" in refused.refusal["reason"]
    with Feed(node, bucket, feed="longpoll", since=token) as feed:
        assert feed.status == 410
    # A consumer that has read the deletion continues, and so does one that starts over.
    assert Answer(node, bucket, since=between.token).status == 200

    def without_the_deletion():
        # While an earlier reader is open, memory keeps what it has still to read.
        answer = Answer(node, bucket)
        return answer if sorted(answer.ids) == sorted([kept, elsewhere]) else None

    fresh = wait_until(without_the_deletion)
    again = Answer(node, bucket, since=fresh.token)
    assert again.status == 200 and not again.changes and not again.errors


def streamed(consumer, vbucket, position, **flags):
    reply = consumer.request(vbucket, position, **flags)
    assert reply.status == SUCCESS, reply
    return {vbucket: position}


@pytest.mark.parametrize("policy", ["valueOnly", "fullEviction"])
def test_dcp_consumer_from_before_a_purge_rolls_back_to_zero_unless_it_ignores_purges(policy):
    with Node() as node:
        node.start().provision()
        bucket = make(node, "streamed", evictionPolicy=policy)
        first, deleted, second, last = keys_of(5, 4)
        with node.connect(bucket) as kv:
            assert kv.set(first, b"1", vbucket=5).status == SUCCESS
            uuid, seqno = kv.set(deleted, b"2", vbucket=5).token
            assert kv.set(second, b"3", vbucket=5).status == SUCCESS
            assert kv.call(Op.DELETE, deleted, vbucket=5).status == SUCCESS
            assert kv.set(last, b"4", vbucket=5).status == SUCCESS
        assert seqno == 2
        found = node.admin.get(f"/pools/default/b/{bucket}").json
        assert "dcp.IgnorePurgedTombstones" in found["bucketCapabilities"]
        expected = [(dcp.MUTATION, second.encode()), (dcp.MUTATION, last.encode())]

        def rolls_back():
            purge(node, bucket)
            with Consumer(node.connect(bucket), name="before") as consumer:
                reply = consumer.request(5, Position(uuid, seqno))
                return reply if reply.status == ROLLBACK else None

        def check(name, has_memory):
            def seen(state):
                changes = [(change.op, change.key) for change in state.changes]
                # The memory may have the deletion until its checkpoint is removed; the disk has not.
                deletion = (dcp.DELETION, deleted.encode())
                return [change for change in changes if not (has_memory and change == deletion)]

            with Consumer(node.connect(bucket), name=name) as consumer:
                for flags in (0, STRICT):
                    refused = consumer.request(5, Position(uuid, seqno), flags=flags)
                    assert (refused.status, refused.value) == (ROLLBACK, bytes(8))
                positions = streamed(consumer, 5, Position(uuid, seqno), flags=IGNORE_PURGED)
                assert seen(consumer.read(positions, lambda state: len(seen(state)) == 2)) == expected
            with Consumer(node.connect(bucket), name=name) as consumer:
                # After the rollback: everything but the deletion.
                positions = streamed(consumer, 5, Position())
                state = consumer.read(positions, lambda state: len(seen(state)) == 3)
                assert {key.decode() for _, key in seen(state)} == {first, second, last}
                assert not state.ends

        assert wait_until(rolls_back).value == bytes(8)
        check("before the restart", has_memory=True)
        node.stop()
        node.start()
        node.await_bucket(bucket)
        check("after the restart", has_memory=False)


def test_purge_of_an_unknown_bucket_is_refused(node):
    path = "/pools/default/buckets/unknown/controller/unsafePurgeBucket"
    assert node.admin.post(path).status == 404
