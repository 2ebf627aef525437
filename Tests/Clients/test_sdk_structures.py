"""The data structures of the Python SDK, which consist of sub-document operations."""

import pytest
from couchbase.exceptions import DocumentNotFoundException, InvalidArgumentException, QueueEmpty

from rig import sdk


@pytest.fixture(scope="module")
def collection(node, bucket):
    cluster = sdk.connect(node)
    yield cluster.bucket(bucket).default_collection()
    cluster.close()


@pytest.fixture
def name(request):
    return request.node.name


def test_list_is_written_at_both_ends_and_within(collection, name):
    found = collection.couchbase_list(name)
    found.append("b")
    found.append({"c": 1})
    found.prepend("a")
    assert found.get_all() == ["a", "b", {"c": 1}]
    assert found.size() == 3 and found.get_at(1) == "b" and found.index_of({"c": 1}) == 2
    found.set_at(1, [2])
    found.remove_at(0)
    assert list(found) == [[2], {"c": 1}] and found.index_of("a") == -1
    for change in (lambda: found.set_at(9, 1), lambda: found.remove_at(9)):
        with pytest.raises(InvalidArgumentException):
            change()
    found.clear()
    assert not collection.exists(name).exists
    assert found.size() == 0


def test_map_has_one_value_for_each_key(collection, name):
    found = collection.couchbase_map(name)
    found.add("a", 1)
    found.add("b", {"x": [1]})
    found.add("a", 2)
    assert found.get_all() == {"a": 2, "b": {"x": [1]}}
    assert found.get("b") == {"x": [1]} and found.size() == 2
    assert found.exists("a") and not found.exists("c")
    found.remove("a")
    assert list(found.keys()) == ["b"] and list(found.values()) == [{"x": [1]}]
    assert dict(found.items()) == {"b": {"x": [1]}}
    with pytest.raises(InvalidArgumentException):
        found.remove("a")
    found.clear()
    assert not collection.exists(name).exists


def test_set_has_each_value_once(collection, name):
    found = collection.couchbase_set(name)
    assert found.add(1) and found.add("1") and not found.add(1)
    assert found.contains("1") and not found.contains(2)
    assert sorted(found.values(), key=str) == [1, "1"] and found.size() == 2
    found.remove(1)
    assert found.values() == ["1"]
    # A value that is not there.
    found.remove(1)
    found.clear()
    assert not collection.exists(name).exists


def test_queue_returns_the_first_value_first(collection, name):
    found = collection.couchbase_queue(name)
    for value in (1, "two", [3]):
        found.push(value)
    assert found.size() == 3
    assert [found.pop() for _ in range(3)] == [1, "two", [3]]
    with pytest.raises(QueueEmpty):
        found.pop()
    found.clear()
    with pytest.raises(DocumentNotFoundException):
        found.pop()
