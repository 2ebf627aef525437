"""The data directory of the release before: the present one opens it, and has everything in it.

`releases/` has the directory, and what that release answered for it.
"""

import json
import pathlib
import struct
import subprocess
import tempfile

import pytest

from rig import subdocument as sub
from rig.node import SERVER, Node, wait_until
from rig.recorded import Recorded, as_json, as_key, observe
from rig.subdocument import Doc, Path
from rig.views import Views
from rig.wire import USUAL_FEATURES, Connection, Feature, Op, Status

BEFORE = Recorded("level-5")
ANSWERS = BEFORE.read_answers()
BUCKETS = sorted(ANSWERS["buckets"])
CURRENT = 6
FEATURES = (*USUAL_FEATURES, Feature.XATTR)
SYNC = {"rev": "1-a", "sequence": 7}


@pytest.fixture(scope="module")
def node():
    """The present server on the directory; its tests only read."""
    with opened() as node:
        yield node


def opened():
    """Starts the present server on an own copy of the directory, on other ports."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="divan-upgrade-"))
    node = Node(directory=directory)
    node.owns_directory = True
    try:
        BEFORE.unpack(node.data)
        return started(node)
    except BaseException:
        node.close()
        raise


def started(node):
    node.start()
    for name in BUCKETS:
        node.await_bucket(name)
    wait_until(lambda: level(node) == CURRENT, 30, "the level is raised")
    # Connections are granted it a moment after the administration shows it.
    wait_until(lambda: grants(node, BUCKETS[0]), 30, "attributes are granted")
    return node


def grants(node, bucket):
    with node.connect(bucket, FEATURES) as kv:
        return set(FEATURES) <= set(kv.features)


def level(node):
    return node.admin.get("/pools/default").json["featureLevel"]


def documents(bucket):
    """What the release before answered for each key."""
    found = {}
    for answer in ANSWERS["buckets"][bucket]["documents"]:
        found[as_key(answer["key"])] = {name: answer[name] for name in answer if name != "key"}
    return found


def rows(node, bucket):
    views = Views(node, bucket)
    return {
        "by_number": views.fresh("old", "by_number").content,
        "kinds": views.fresh("old", "kinds", group=True).content,
    }


def attribute(kv, key, flags=0):
    """The status and value of a document's attribute `_sync`."""
    reply = sub.lookup(kv, key, (sub.GET, Path.XATTR, "_sync"), doc_flags=flags)
    return reply.results


# What was stored


def test_directory_of_the_level_before_was_recorded():
    """A new level needs a directory of the level before it: releases/README.md."""
    assert ANSWERS["featureLevel"] == CURRENT - 1


def test_dump_has_the_recorded_documents():
    with tempfile.TemporaryDirectory(prefix="divan-upgrade-") as place:
        data = pathlib.Path(place) / "data"
        BEFORE.unpack(data)
        command = [str(SERVER), "--dump", str(data)]
        lines = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    keys = [json.loads(line).get("key") for line in lines.splitlines()]
    for bucket in BUCKETS:
        for key, answer in documents(bucket).items():
            if not answer["deleted"] and "text" in as_json(key):
                assert keys.count(key.decode()) == len(BUCKETS), key


@pytest.mark.parametrize("bucket", BUCKETS)
def test_bucket_keeps_its_settings(node, bucket):
    found = node.admin.get(f"/pools/default/buckets/{bucket}").json
    before = ANSWERS["buckets"][bucket]
    for name in ("uuid", "evictionPolicy", "numVBuckets"):
        assert found[name] == before[name]
    assert found["quota"]["ram"] == before["ram"]


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("features", [USUAL_FEATURES, FEATURES], ids=["plain", "attributes"])
def test_documents_and_tombstones_are_as_before(node, bucket, features):
    with node.connect(bucket, features) as kv:
        found = {key: observe(kv, key) for key in documents(bucket)}
    assert found == documents(bucket)
    assert sum(each["deleted"] for each in found.values()) == 7


@pytest.mark.parametrize("bucket", BUCKETS)
def test_histories_and_seqnos_are_as_before(node, bucket):
    with node.connect(bucket) as kv:
        for place, position in ANSWERS["buckets"][bucket]["positions"].items():
            found = kv.observe_seqno(int(place), int(position["uuid"], 16))
            assert found == (position["seqno"],) * 2, place


@pytest.mark.parametrize("bucket", BUCKETS)
def test_documents_have_no_attributes_and_their_virtual_one(node, bucket):
    with node.connect(bucket, FEATURES) as kv:
        for key, before in documents(bucket).items():
            if before["deleted"]:
                continue
            specs = [(sub.GET, Path.XATTR, path) for path in ("$document", "$XTOC")]
            reply = sub.lookup(kv, key, *specs)
            assert [status for status, _ in reply.results] == [0, 0], key
            virtual, names = [json.loads(value) for _, value in reply.results]
            assert names == [] and int(virtual["CAS"], 16) == int(before["cas"], 16)
            assert (virtual["exptime"], int(virtual["revid"])) == (
                before["expiry"],
                before["revision"],
            )
            assert not virtual["deleted"]


@pytest.mark.parametrize("bucket", BUCKETS)
def test_views_have_the_rows_of_before(node, bucket):
    before = ANSWERS["buckets"][bucket]
    assert Views(node, bucket).get("old").json == before["design"]
    assert rows(node, bucket) == before["rows"]


def test_user_logs_in_and_keeps_the_roles(node):
    user = ANSWERS["user"]
    assert node.admin.get("/settings/rbac/users/local").json == ANSWERS["users"]
    with Connection(node.kv_port) as connection:
        connection.hello(USUAL_FEATURES)
        assert connection.log_in(user["name"], "wrong").status == Status.AUTH_ERROR
    with Connection(node.kv_port) as connection:
        connection.hello(USUAL_FEATURES)
        assert connection.log_in(user["name"], user["password"]).status == 0
        assert connection.select_bucket(BUCKETS[0]).status == 0
        connection.vbuckets = ANSWERS["buckets"][BUCKETS[0]]["numVBuckets"]
        assert connection.get("counter").value == b"42"
    reply = node.anonymous.as_user(user["name"], user["password"]).get("/whoami")
    assert (reply.status, reply.json["id"]) == (200, user["name"])


# What the present release adds


def test_old_documents_and_tombstones_get_attributes_that_survive_restarts():
    written = [(Status.SUCCESS, json.dumps(SYNC).encode())]
    live, tombstone = (b"thing-02", b"large", b"large-json", b"empty", b"expires"), b"deleted-3"
    with opened() as node:
        changed = {}
        for bucket in BUCKETS:
            before = documents(bucket)
            with node.connect(bucket, FEATURES) as kv:
                for key in live:
                    reply = sub.mutate(kv, key, sub.attribute("_sync", SYNC))
                    assert reply.status == Status.SUCCESS, (bucket, key, reply)
                    assert reply.cas > int(before[key]["cas"], 16)
                reply = sub.mutate(
                    kv, tombstone, sub.attribute("_sync", SYNC), doc_flags=Doc.ACCESS_DELETED
                )
                assert reply.status == sub.SUCCESS_DELETED, reply
                # A document of before that is written without attributes.
                assert kv.set("thing-03", b'{"n":3,"kind":"tree"}').status == Status.SUCCESS
                changed[bucket] = {
                    key: observe(kv, key) for key in (*live, tombstone, b"thing-03")
                }
                for key in live:
                    want = {**before[key], "revision": before[key]["revision"] + 1}
                    assert {**changed[bucket][key], "cas": want["cas"]} == want
        for round in range(2):
            assert node.stop() == 0
            started(node)
            for bucket in BUCKETS:
                with node.connect(bucket, FEATURES) as kv:
                    for key in live:
                        assert attribute(kv, key) == written, (round, key)
                    assert attribute(kv, tombstone, Doc.ACCESS_DELETED) == written
                    found = {key: observe(kv, key) for key in documents(bucket)}
                    assert found == {**documents(bucket), **changed[bucket]}
                assert rows(node, bucket) == ANSWERS["buckets"][bucket]["rows"]


@pytest.mark.parametrize("bucket", BUCKETS)
def test_deletion_of_an_old_document_keeps_the_system_attribute(bucket):
    with opened() as node:
        with node.connect(bucket, FEATURES) as kv:
            for key in ("thing-04", "binary"):
                reply = sub.mutate(
                    kv, key, sub.attribute("_sync", SYNC), sub.attribute("color", "red")
                )
                assert reply.status == Status.SUCCESS, reply
                assert kv.call(Op.DELETE, key).status == Status.SUCCESS
        assert node.stop() == 0
        started(node)
        with node.connect(bucket, FEATURES) as kv:
            for key in ("thing-04", "binary"):
                specs = [(sub.GET, Path.XATTR, name) for name in ("_sync", "color")]
                reply = sub.lookup(kv, key, *specs, doc_flags=Doc.ACCESS_DELETED)
                assert reply.status == sub.FAILURE_DELETED
                assert reply.results == [
                    (Status.SUCCESS, json.dumps(SYNC).encode()),
                    (sub.PATH_MISSING, b""),
                ]
                meta = kv.call(Op.GET_META, key, extras=b"\x02")
                assert struct.unpack(">IIIQB", meta.extras)[::4] == (1, sub.ATTRIBUTES)
