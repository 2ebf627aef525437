"""Buckets over the admin port: rules, texts, fields, streams (rest.md, 4)."""

import json
import re
import threading

import pytest

from rig.node import wait_until
from rig.wire import Status

BUCKETS = "/pools/default/buckets"
NOT_FOUND = "Requested resource not found.\r\n"


def create(node, name="refused", **settings):
    form = {"name": name, "ramQuotaMB": 100, **settings}
    return node.admin.post(BUCKETS, {key: v for key, v in form.items() if v is not None})


# Creating


def test_new_bucket_is_accepted_and_located(node):
    reply = create(node, "located")
    assert (reply.status, reply.body) == (202, b"")
    assert reply.headers["Location"] == f"{BUCKETS}/located"
    node.await_bucket("located")


@pytest.mark.parametrize(
    "change,field",
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": ".hidden"}, "name"),
        ({"name": "with space"}, "name"),
        ({"name": "umläut"}, "name"),
        ({"name": "_users.couch.x"}, "name"),
        ({"name": "_Replicator.Couch.x"}, "name"),
        ({"ramQuotaMB": None}, "ramQuota"),
        ({"ramQuotaMB": 99}, "ramQuota"),
        ({"ramQuotaMB": "-100"}, "ramQuota"),
        ({"ramQuotaMB": "many"}, "ramQuota"),
        ({"ramQuotaMB": 1_000_000}, "ramQuota"),
        ({"replicaNumber": 4}, "replicaNumber"),
        ({"replicaNumber": "-1"}, "replicaNumber"),
        ({"bucketType": "memcached"}, "bucketType"),
        ({"bucketType": "other"}, "bucketType"),
        ({"evictionPolicy": "noEviction"}, "evictionPolicy"),
        ({"bucketType": "ephemeral", "evictionPolicy": "valueOnly"}, "evictionPolicy"),
        ({"bucketType": "ephemeral", "replicaIndex": 1}, "replicaIndex"),
        ({"flushEnabled": 2}, "flushEnabled"),
        ({"numVBuckets": 100}, "numVBuckets"),
        ({"numVBuckets": 2048}, "numVBuckets"),
        ({"maxTTL": 2147483648}, "maxTTL"),
        ({"compressionMode": "active"}, "compressionMode"),
        ({"historyRetentionSeconds": 60}, "historyRetentionSeconds"),
        ({"historyRetentionBytes": 1 << 31}, "historyRetentionBytes"),
        ({"historyRetentionCollectionDefault": "false"}, "historyRetentionCollectionDefault"),
        ({"rank": 1}, "rank"),
        ({"pitrEnabled": "true"}, "pitrEnabled"),
        ({"crossClusterVersioningEnabled": "true"}, "crossClusterVersioningEnabled"),
        ({"encryptionAtRestKeyId": 0}, "encryptionAtRestKeyId"),
        ({"purgeInterval": "0.5"}, "purgeInterval"),
        ({"authType": "none"}, "authType"),
        ({"storageBackend": "rocks"}, "storageBackend"),
        ({"conflictResolutionType": "lww"}, "conflictResolutionType"),
        ({"autoCompactionDefined": "true"}, "autoCompactionDefined"),
        ({"conflictResolutionType": "dice"}, "conflictResolutionType"),
        ({"durabilityMinLevel": "lots"}, "durabilityMinLevel"),
        ({"passwordless": "maybe"}, "passwordless"),
    ],
    ids=str,
)
def test_invalid_bucket_settings_are_reported_by_field(node, change, field):
    reply = create(node, **change)
    assert reply.status == 400
    assert reply.headers["Content-Type"].startswith("application/json")
    assert list(reply.json["errors"]) == [field]
    assert reply.json["errors"][field]


def test_every_invalid_field_is_reported_in_one_answer(node):
    reply = create(node, name="", ramQuotaMB=1, replicaNumber=9)
    assert set(reply.json["errors"]) == {"name", "ramQuota", "replicaNumber"}


@pytest.mark.parametrize("again", ["taken", "TAKEN"])
def test_taken_name_is_refused_in_the_words_clients_look_for(node, again):
    if node.admin.get(f"{BUCKETS}/taken").status != 200:
        node.create_bucket("taken")
    reply = create(node, again)
    assert reply.status == 400
    assert reply.json["errors"]["name"] == "Bucket with given name already exists"


def test_unknown_parameters_are_ignored(node):
    reply = create(node, "old-tools", authType="sasl", saslPassword="", proxyPort=11216)
    assert reply.status == 202


def test_unrequested_parameters_of_tools_are_accepted(node):
    reply = create(node, "by-a-tool", storageBackend="magma", compressionMode="passive", rank=0)
    assert reply.status == 202
    found = node.admin.get(f"{BUCKETS}/by-a-tool").json
    assert found["compressionMode"] == "passive" and found["storageBackend"] == "couchstore"


def test_more_replicas_than_nodes_are_a_warning_when_validated(node):
    form = {"name": "warned", "ramQuotaMB": 100, "replicaNumber": 2}
    reply = node.admin.post(f"{BUCKETS}?just_validate=1", form)
    assert reply.status == 400 and reply.json["errors"]["replicaNumber"].startswith("Warning:")
    assert node.admin.post(f"{BUCKETS}?just_validate=1&ignore_warnings=1", form).status == 200


def test_just_validate_changes_nothing_and_sums_up(node):
    form = {"name": "never-made", "ramQuotaMB": 100}
    reply = node.admin.post(f"{BUCKETS}?just_validate=1", form)
    assert reply.status == 200 and reply.json["errors"] == {}
    ram = reply.json["summaries"]["ramSummary"]
    assert ram["thisAlloc"] == 100 << 20 and ram["total"] == 2048 << 20
    assert node.admin.get(f"{BUCKETS}/never-made").status == 404
    assert node.admin.post(f"{BUCKETS}?just_validate=1", {"name": ""}).status == 400


def test_just_validate_of_an_existing_bucket_is_202(node):
    node.create_bucket("validated")
    path = f"{BUCKETS}/validated?just_validate=1"
    assert node.admin.post(path, {"ramQuotaMB": 110}).status == 202
    assert node.admin.post(path, {"ramQuotaMB": 1}).status == 400
    assert node.admin.get(f"{BUCKETS}/validated").json["quota"]["rawRAM"] == 100 << 20


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("lww", "Conflict resolution type 'lww' is supported only in enterprise edition"),
        (
            "custom",
            "Conflict resolution type 'custom' is supported only with developer preview enabled",
        ),
        ("dice", "Conflict resolution type must be 'seqno' or 'lww' or 'custom'"),
    ],
)
def test_other_conflict_resolution_has_the_text_that_clients_look_for(node, kind, text):
    reply = create(node, "resolved", conflictResolutionType=kind)
    assert reply.json["errors"] == {"conflictResolutionType": text}


def test_delete_of_an_unknown_bucket_has_the_text_that_clients_look_for(node):
    reply = node.admin.delete(f"{BUCKETS}/never-made")
    assert (reply.status, reply.text) == (404, "Requested resource not found.\r\n")


def test_bucket_beyond_the_remaining_quota_is_refused(make_node):
    node = make_node().start().provision(quota_megabytes=512)
    node.create_bucket("first", ramQuotaMB=400)
    reply = create(node, "second", ramQuotaMB=200)
    assert reply.status == 400 and "ramQuota" in reply.json["errors"]
    assert create(node, "second", ramQuotaMB=112).status == 202


# Reading


def test_bucket_has_the_fields_that_clients_require(node):
    node.create_bucket("fields", ramQuotaMB=110, replicaNumber=1, flushEnabled=1)
    found = node.admin.get(f"{BUCKETS}/fields").json
    assert found["name"] == "fields"
    assert re.fullmatch("[0-9a-f]{32}", found["uuid"])
    assert found["bucketType"] == "membase"
    assert found["quota"] == {"ram": 110 << 20, "rawRAM": 110 << 20}
    assert found["replicaNumber"] == 1
    assert found["evictionPolicy"] == "valueOnly"
    assert found["conflictResolutionType"] == "seqno"
    assert found["nodeLocator"] == "vbucket"
    assert found["numVBuckets"] == 1024
    assert found["durabilityMinLevel"] == "none"
    assert found["storageBackend"] == "couchstore"
    assert found["authType"] == "sasl"
    assert "flush" in found["controllers"]
    (this,) = found["nodes"]
    assert this["status"] == "healthy"
    assert isinstance(this["hostname"], str) and isinstance(this["version"], str)
    assert this["services"] == ["kv"] and this["ports"]["direct"] == node.kv_port
    assert len(found["vBucketServerMap"]["vBucketMap"]) == 1024
    assert found["ddocs"] == {"uri": f"{BUCKETS}/{found['name']}/ddocs"}
    base = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/(.*)", this["couchApiBase"])
    assert base[1] == node.flag("--views-port") and base[2] == f"{found['name']}%2B{found['uuid']}"
    # An unsupported feature is not advertised.
    for capability in ("collections", "rangeScan", "querySystemCollection"):
        assert capability not in found["bucketCapabilities"]
    implemented = {"dcp", "durableWrite", "couchapi", "xattr", "subdoc.ReplicaRead"}
    assert implemented <= set(found["bucketCapabilities"])


def test_bucket_types_and_policies_are_reported(node):
    node.create_bucket("brief", bucketType="ephemeral", evictionPolicy="nruEviction")
    found = node.admin.get(f"{BUCKETS}/brief").json
    assert (found["bucketType"], found["evictionPolicy"]) == ("ephemeral", "nruEviction")
    node.create_bucket("unflushable", flushEnabled=0, evictionPolicy="fullEviction")
    found = node.admin.get(f"{BUCKETS}/unflushable").json
    assert "flush" not in found["controllers"]
    assert found["evictionPolicy"] == "fullEviction"


def test_map_may_be_skipped(node, bucket):
    found = node.admin.get(f"{BUCKETS}?skipMap=true").json
    assert all("vBucketServerMap" not in each for each in found)


def test_bucket_statistics_match_the_documents(node):
    node.create_bucket("counted")
    with node.connect("counted") as connection:
        for number in range(100):
            connection.set(b"key-%d" % number, b"x" * 1000)

    def is_counted():
        stats = node.admin.get(f"{BUCKETS}/counted").json["basicStats"]
        return stats["itemCount"] == 100 and stats["memUsed"] > 100_000

    wait_until(is_counted, 5)
    wait_until(lambda: node.admin.get(f"{BUCKETS}/counted").json["basicStats"]["diskUsed"] > 0, 5)
    wait_until(lambda: node.admin.get(f"{BUCKETS}/counted").json["basicStats"]["opsPerSec"] == 0, 10)

    def samples():
        found = node.admin.get(f"{BUCKETS}/counted/stats").json["op"]["samples"]
        return found if found["timestamp"] else None

    samples = wait_until(samples, 5, "a first sample")
    for name in ("ops", "cmd_get", "cmd_set", "curr_items", "mem_used"):
        assert len(samples[name]) == len(samples["timestamp"])


def test_missing_bucket_is_not_found_in_couchbases_words(node):
    reply = node.admin.get(f"{BUCKETS}/missing")
    assert (reply.status, reply.text) == (404, NOT_FOUND)
    reply = node.admin.get("/pools/default/b/missing")
    assert (reply.status, reply.json) == (404, "Bucket not found")


def test_another_buckets_uuid_is_refused(node, bucket):
    uuid = node.admin.get(f"{BUCKETS}/{bucket}").json["uuid"]
    assert node.admin.get(f"{BUCKETS}/{bucket}?bucket_uuid={uuid}").status == 200
    reply = node.admin.get(f"{BUCKETS}/{bucket}?bucket_uuid={'0' * 32}")
    assert reply.status == 404 and reply.text.startswith("Bucket uuid does not match")


# Configurations


def test_terse_configuration_is_the_one_of_the_data_port(node, bucket):
    terse = node.admin.get(f"/pools/default/b/{bucket}").json
    assert terse["name"] == bucket and terse["nodeLocator"] == "vbucket"
    assert len(terse["nodes"]) == len(terse["nodesExt"]) == 1
    assert terse["nodes"][0]["ports"]["direct"] == node.kv_port
    assert all("services" in each for each in terse["nodesExt"])
    with node.connect(bucket) as connection:
        wire = json.loads(connection.call(0xB5).value)
    assert wire["rev"] == terse["rev"] and wire["uuid"] == terse["uuid"]
    assert wire["vBucketServerMap"]["vBucketMap"] == terse["vBucketServerMap"]["vBucketMap"]


@pytest.mark.parametrize("path", ["/pools/default/bs/{}", "/pools/default/bucketsStreaming/{}"])
def test_bucket_stream_reports_changes_and_ends_with_the_bucket(node, path):
    name = "streamed-" + ("terse" if "/bs/" in path else "long")
    node.create_bucket(name)
    with node.admin.stream(path.format(name)) as stream:
        assert stream.status == 200
        assert stream.headers["Content-Type"].startswith("application/json")
        first = json.loads(stream.next())
        assert first["name"] == name
        change = threading.Timer(
            0.2, lambda: node.admin.post(f"{BUCKETS}/{name}", {"replicaNumber": 2})
        )
        change.start()
        second = json.loads(stream.next())
        assert second["vBucketServerMap"]["numReplicas"] == 2
        if "rev" in first:
            assert second["rev"] > first["rev"]
        node.admin.delete(f"{BUCKETS}/{name}")
        while stream.next() is not None:
            pass


def test_stream_of_a_missing_bucket_is_not_found(node):
    for path in ("/pools/default/bs/missing", "/pools/default/bucketsStreaming/missing"):
        assert node.admin.get(path).status == 404


# Changing


def test_bucket_can_be_changed(node):
    node.create_bucket("changed", flushEnabled=0)
    path = f"{BUCKETS}/changed"
    reply = node.admin.post(path, {"ramQuotaMB": 200, "flushEnabled": 1, "replicaNumber": 2})
    assert (reply.status, reply.body) == (200, b"")
    found = node.admin.get(path).json
    assert found["quota"]["rawRAM"] == 200 << 20
    assert found["replicaNumber"] == 2 and "flush" in found["controllers"]
    # Some clients send the whole form again, with a leading &.
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert node.admin.request("POST", path, "&ramQuotaMB=210", headers).status == 200
    assert node.admin.get(path).json["quota"]["rawRAM"] == 210 << 20


@pytest.mark.parametrize(
    "change", [{"numVBuckets": 64}, {"bucketType": "ephemeral"}, {"ramQuotaMB": 10}], ids=str
)
def test_change_of_an_immutable_setting_is_refused(node, bucket, change):
    reply = node.admin.post(f"{BUCKETS}/{bucket}", change)
    assert reply.status == 400 and reply.json["errors"]


def test_missing_bucket_cannot_be_changed(node):
    assert node.admin.post(f"{BUCKETS}/missing", {"ramQuotaMB": 100}).status == 404


# Flushing and deleting


def test_flush_is_refused_in_the_words_clients_look_for(node):
    node.create_bucket("kept-full", flushEnabled=0)
    reply = node.admin.post(f"{BUCKETS}/kept-full/controller/doFlush")
    assert reply.status == 400
    assert reply.json == {"_": "Flush is disabled for the bucket"}
    assert node.admin.post(f"{BUCKETS}/missing/controller/doFlush").status == 404


def test_flush_empties(node):
    node.create_bucket("emptied")
    with node.connect("emptied") as connection:
        connection.set(b"key", b"1")
        assert node.admin.post(f"{BUCKETS}/emptied/controller/doFlush").status == 200
        node.await_bucket("emptied")
        assert connection.get(b"key").status == Status.NOT_FOUND


def test_deleted_bucket_is_gone(node):
    node.create_bucket("deleted")
    assert node.admin.delete(f"{BUCKETS}/deleted").status == 200
    assert node.admin.get(f"{BUCKETS}/deleted").status == 404
    names = [each["name"] for each in node.admin.get(BUCKETS).json]
    assert "deleted" not in names
    assert node.admin.delete(f"{BUCKETS}/deleted").status == 404
    node.create_bucket("deleted")


@pytest.mark.parametrize("path", ["/pools/default/buckets", "/pools/default", "/settings/web"])
def test_multipart_form_is_refused_with_the_content_type_to_send(node, path):
    body = '--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nb\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    reply = node.admin.request("POST", path, body, headers)
    assert reply.status == 400
    assert "multipart/form-data is not supported" in reply.json["errors"]["_"]
    assert "application/x-www-form-urlencoded" in reply.json["errors"]["_"]
