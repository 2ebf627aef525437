"""The Python SDK connects, or gets an error quickly."""

import datetime
import time

import pytest
from couchbase.diagnostics import PingState, ServiceType
from couchbase.exceptions import AuthenticationException, BucketNotFoundException

from rig import sdk

QUICK_SECONDS = 3


@pytest.fixture(scope="module")
def cluster(node, bucket):
    cluster = sdk.connect(node)
    yield cluster
    cluster.close()


def test_sdk_connects_by_the_data_port_alone(cluster, bucket):
    collection = cluster.bucket(bucket).default_collection()
    collection.upsert("hello", {"from": "the sdk"})
    assert collection.get("hello").content_as[dict] == {"from": "the sdk"}


def test_wrong_password_is_an_authentication_failure_at_once(node, bucket):
    began = time.monotonic()
    with pytest.raises(AuthenticationException):
        sdk.connect(node, password="wrong-password").bucket(bucket)
    assert time.monotonic() - began < QUICK_SECONDS


def test_unknown_user_is_an_authentication_failure_at_once(node, bucket):
    began = time.monotonic()
    with pytest.raises(AuthenticationException):
        sdk.connect(node, user="unknown").bucket(bucket)
    assert time.monotonic() - began < QUICK_SECONDS


def test_unknown_bucket_is_not_found_at_once(cluster):
    began = time.monotonic()
    with pytest.raises(BucketNotFoundException):
        cluster.bucket("there-is-none")
    assert time.monotonic() - began < QUICK_SECONDS


def test_unknown_bucket_does_not_harm_the_connection(cluster, bucket):
    with pytest.raises(BucketNotFoundException):
        cluster.bucket("there-is-none-either")
    assert cluster.bucket(bucket).default_collection().exists("no such key").exists is False


def test_sdk_waits_until_ready(cluster, bucket):
    cluster.wait_until_ready(datetime.timedelta(seconds=5))


def test_ping_reaches_every_service_that_is_advertised(cluster, bucket):
    result = cluster.bucket(bucket).ping()
    assert ServiceType.KeyValue in result.endpoints
    reports = [report for reports in result.endpoints.values() for report in reports]
    assert reports
    assert all(report.state == PingState.OK for report in reports), result.as_json()


def test_services_that_are_not_built_are_not_advertised(cluster, bucket):
    advertised = set(cluster.bucket(bucket).ping().endpoints)
    for service in (ServiceType.Query, ServiceType.Search, ServiceType.Analytics):
        assert service not in advertised or not cluster.ping().endpoints[service]


def test_diagnostics_show_a_connection(cluster, bucket):
    cluster.bucket(bucket).default_collection().exists("anything")
    report = cluster.diagnostics()
    assert report.endpoints[ServiceType.KeyValue]


def test_cluster_info_names_the_version_clients_branch_on(cluster, bucket):
    info = cluster.cluster_info()
    assert info.server_version_short >= 7.6
    assert [node for node in info.nodes]
