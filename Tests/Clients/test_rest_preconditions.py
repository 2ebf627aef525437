"""Changes that name the version that they are based on, asked of one node for what another node serves."""

import json
import threading

import pytest

from cluster import made

DOCS = "/pools/default/buckets/demo/docs"


@pytest.fixture(scope="module")
def cluster():
    with made(2, ["demo"]) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster):
    return cluster[0].admin


def version(reply):
    return {"If-Match": reply.headers["ETag"]}


def test_document_of_another_node_that_changed_meanwhile_is_not_overwritten(cluster, admin):
    rows = cluster.vbucket_map("demo")
    assert {row[0] for row in rows} == {0, 1}, "both nodes serve vBuckets"
    for number in range(16):
        path = f"{DOCS}/doc-{number}"
        new = {"If-None-Match": "*"}
        assert admin.post(path, {"value": "1"}, headers=new).status == 200
        refused = admin.post(path, {"value": "2"}, headers=new)
        assert (refused.status, refused.json["error"]) == (412, "precondition_failed")
        read = version(admin.get(path))
        assert cluster[1].admin.post(path, {"value": "3"}).status == 200
        assert admin.post(path, {"value": "4"}, headers=read).status == 412
        assert admin.request("DELETE", path, headers=read).status == 412
        assert admin.get(path).json["json"] == "3"
        assert admin.post(path, {"value": "5"}, headers=version(admin.get(path))).status == 200
        assert admin.request("DELETE", path, headers=version(admin.get(path))).status == 200
        assert admin.get(path).status == 404


def race(cluster, change):
    """The statuses of changes that both nodes are sent at the same time, with the same version."""
    statuses = []
    barrier = threading.Barrier(2)

    def run(number):
        barrier.wait(10)
        statuses.append(change(cluster[number].admin, number).status)

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return sorted(statuses)


def test_second_of_two_concurrent_changes_of_a_version_is_refused(cluster, admin):
    """The log of the cluster decides, not the node that was asked."""
    json_type = {"Content-Type": "application/json"}
    user, design, bucket = "/settings/rbac/users/local/ann", "/couchBase/demo/_design/d", "/pools/default/buckets/demo"
    assert admin.put(user, {"roles": "ro_admin", "password": "secret"}).status == 200

    def views(name):
        return json.dumps({"views": {name: {"map": "function (doc, meta) { emit(meta.id, null); }"}}})

    assert admin.request("PUT", design, views("first"), json_type).status == 201
    for attempt in range(5):
        read = version(admin.get(user))
        assert race(cluster, lambda node, number: node.put(
            user, {"roles": "ro_admin", "name": f"{attempt}-{number}"}, headers=read)) == [200, 412]
        read = version(admin.get(design))
        assert race(cluster, lambda node, number: node.request(
            "PUT", design, views(f"v-{attempt}-{number}"), {**json_type, **read})) == [201, 412]
        read = version(admin.get(bucket))
        assert race(cluster, lambda node, number: node.post(
            bucket, {"maxTTL": 1 + 2 * attempt + number}, headers=read)) == [200, 412]
    read = version(admin.get(design))
    assert admin.request("PUT", design, views("last"), json_type).status == 201
    assert admin.request("DELETE", design, headers=read).status == 412
    assert admin.request("DELETE", design, headers=version(admin.get(design))).status == 200


def test_user_that_exists_is_not_replaced_by_a_request_for_a_new_one(admin):
    path = "/settings/rbac/users/local/bob"
    new = {"If-None-Match": "*"}
    form = {"roles": "ro_admin", "password": "secret"}
    assert admin.put(path, form, headers=new).status == 200
    refused = admin.put(path, {**form, "roles": "admin"}, headers=new)
    assert refused.status == 412 and "exists already" in refused.json["errors"]["_"]
    assert admin.get(path).json["roles"][0]["role"] == "ro_admin"


def test_version_of_a_bucket_does_not_depend_on_its_password(admin):
    path = "/pools/default/buckets/demo"
    before = admin.get(path).headers["ETag"]
    assert admin.post(path, {"saslPassword": "a long password"}).status == 200
    assert admin.get(path).headers["ETag"] == before
    assert admin.post(path, {"ramQuotaMB": 101}).status == 200
    assert admin.get(path).headers["ETag"] != before
