"""Requests about memory that arrive together: at most one of two that do not fit together is done."""

import threading

import pytest

from cluster import made
from rig.node import wait_until

QUOTA = 512
ROUNDS = 5


def together(*requests):
    """Makes all requests at one instant, and returns their replies in order."""
    barrier = threading.Barrier(len(requests))
    replies = [None] * len(requests)

    def make(place, request):
        barrier.wait(10)
        replies[place] = request()

    threads = [
        threading.Thread(target=make, args=each, daemon=True) for each in enumerate(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert None not in replies
    return replies


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request):
    with made(request.param) as cluster:
        yield cluster


def create(member, name, megabytes):
    form = {"name": name, "ramQuota": megabytes, "replicaNumber": 0, "numVBuckets": 64}
    return member.admin.post("/pools/default/buckets", form)


def change(member, name, megabytes):
    return member.admin.post(f"/pools/default/buckets/{name}", {"ramQuota": megabytes})


def quotas(member):
    """The memory quota and those of the buckets, in MB."""
    pool = member.admin.get("/pools/default").json
    buckets = member.admin.get("/pools/default/buckets").json
    return pool["memoryQuota"], {each["name"]: each["quota"]["rawRAM"] >> 20 for each in buckets}


def clear(cluster):
    for name in quotas(cluster[0])[1]:
        assert cluster[0].admin.delete(f"/pools/default/buckets/{name}").status == 200

    def is_clear():
        return all(quotas(member) == (QUOTA, {}) for member in cluster.members)

    assert cluster[0].admin.post("/pools/default", {"memoryQuota": QUOTA}).status == 200
    wait_until(is_clear, 20, "all nodes know that the buckets are gone")


@pytest.mark.parametrize("number", range(ROUNDS))
def test_second_of_two_creates_that_do_not_fit_is_refused(cluster, number):
    clear(cluster)
    last = cluster[len(cluster) - 1]
    replies = together(lambda: create(cluster[0], "one", 300), lambda: create(last, "two", 300))
    assert sorted(reply.status for reply in replies) == [202, 400]
    refused = next(reply for reply in replies if reply.status == 400)
    assert refused.json["errors"] == {
        "ramQuota": "The memory quota of 300 MB does not fit: of the data service's 512 MB on each "
        "node, 212 MB are free"
    }
    assert "summaries" in refused.json
    memory, buckets = quotas(cluster[0])
    assert sum(buckets.values()) == 300 and memory == QUOTA


@pytest.mark.parametrize("number", range(ROUNDS))
def test_second_of_two_raises_that_do_not_fit_is_refused(cluster, number):
    clear(cluster)
    for name in ("one", "two"):
        assert create(cluster[0], name, 100).status == 202
    last = cluster[len(cluster) - 1]
    wait_until(lambda: len(quotas(last)[1]) == 2, 20, "the last node knows both buckets")
    replies = together(lambda: change(cluster[0], "one", 300), lambda: change(last, "two", 300))
    assert sorted(reply.status for reply in replies) == [200, 400]
    refused = next(reply for reply in replies if reply.status == 400)
    assert list(refused.json["errors"]) == ["ramQuota"]
    assert sorted(quotas(cluster[0])[1].values()) == [100, 300]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_memory_quota_is_not_lowered_below_a_bucket_that_is_being_created(cluster, number):
    clear(cluster)
    last = cluster[len(cluster) - 1]
    made_bucket, lowered = together(
        lambda: create(cluster[0], "one", 400),
        lambda: last.admin.post("/pools/default", {"memoryQuota": 300}),
    )
    assert sorted((made_bucket.status == 202, lowered.status == 200)) == [False, True]
    if lowered.status == 200:
        assert list(made_bucket.json["errors"]) == ["ramQuota"]
        assert quotas(cluster[0]) == (300, {})
    else:
        assert lowered.status == 400
        assert lowered.json["errors"] == {
            "memoryQuota": "The data service quota (300MB) cannot be less than 400MB (current total "
            "buckets quota, or at least 256MB)."
        }
        assert quotas(cluster[0]) == (QUOTA, {"one": 400})


def test_of_two_provisioning_requests_the_refused_one_changes_nothing(make_node):
    for number in range(ROUNDS):
        node = make_node().start()
        forms = [
            {
                "port": "SAME",
                "username": name,
                "password": "password",
                "memoryQuota": quota,
                "clusterName": name,
            }
            for name, quota in (("one", 300), ("two", 400))
        ]
        replies = together(
            *(lambda form=form: node.anonymous.post("/clusterInit", form) for form in forms)
        )
        done = [place for place, reply in enumerate(replies) if reply.status == 200]
        assert len(done) == 1, replies
        form = forms[done[0]]
        pool = node.admin.as_user(form["username"], "password").get("/pools/default")
        assert pool.status == 200
        assert pool.json["memoryQuota"] == form["memoryQuota"]
        assert pool.json["clusterName"] == form["clusterName"]
        node.close()
