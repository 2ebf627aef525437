"""The official Python client, connected to a node."""

import datetime

from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.options import ClusterOptions, ClusterTimeoutOptions

from .node import PASSWORD, USER


def connect(node, user=USER, password=PASSWORD, kv_seconds=5):
    timeouts = ClusterTimeoutOptions(
        kv_timeout=datetime.timedelta(seconds=kv_seconds),
        bootstrap_timeout=datetime.timedelta(seconds=15),
        management_timeout=datetime.timedelta(seconds=20),
    )
    options = ClusterOptions(PasswordAuthenticator(user, password), timeout_options=timeouts)
    return Cluster(node.connection_string, options)
