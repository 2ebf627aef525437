"""CouchDB's Python clients create, read, change and delete documents of `divan-gateway`."""

import io

import couchdb
import pycouchdb
import pytest

from rig.divan_gateway import DivanGateway

CONFIGURATION = '{"databases": {"db": {"server": "walrus:"}}}'


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The administration port, which asks for no login."""
    configuration = tmp_path_factory.mktemp("gateway") / "configuration.json"
    configuration.write_text(CONFIGURATION)
    with DivanGateway(configuration) as gateway:
        yield f"http://127.0.0.1:{gateway.admin_port}/"


class TestCouchDB:
    @pytest.fixture
    def database(self, url):
        return couchdb.Server(url)["db"]

    def test_documents(self, database):
        database["one"] = {"v": 1}
        document = database["one"]
        document["v"] = 2
        database["one"] = document
        assert database["one"]["v"] == 2
        with pytest.raises(couchdb.ResourceConflict):
            database["one"] = {"v": 3}
        identity, revision = database.save({"v": 4})
        assert database.get(identity).rev == revision
        del database["one"]
        assert "one" not in database and database.get("one") is None

    def test_many_documents(self, database):
        documents = [{"_id": f"many-{number}", "v": number} for number in range(20)]
        assert all(is_written for is_written, _, _ in database.update(documents))
        documents[3]["v"] = 33
        assert database.update(documents[3:4])[0][0]
        rows = database.view("_all_docs", keys=["many-3", "many-4"], include_docs=True)
        assert [row.doc["v"] for row in rows] == [33, 4]
        assert len(database.view("_all_docs", startkey="many-", endkey="many-\ufff0")) == 20

    def test_attachments(self, database):
        identity, _ = database.save({})
        database.put_attachment(database[identity], "hello", "a b.txt", "text/plain")
        document = database[identity]
        assert document["_attachments"]["a b.txt"]["content_type"] == "text/plain"
        assert database.get_attachment(document, "a b.txt").read() == b"hello"
        database.delete_attachment(document, "a b.txt")
        assert database.get_attachment(identity, "a b.txt") is None

    def test_changes(self, database):
        since = database.changes()["last_seq"]
        identity, revision = database.save({"v": 1})
        changes = database.changes(since=since)
        assert [change["id"] for change in changes["results"]] == [identity]
        feed = database.changes(feed="continuous", since=since, include_docs=True)
        change = next(feed)
        assert change["doc"] == {"_id": identity, "_rev": revision, "v": 1}


class TestPycouchdb:
    @pytest.fixture
    def database(self, url):
        return pycouchdb.Server(url, authmethod="basic").database("db")

    def test_documents(self, database):
        first = database.save({"_id": "two", "v": 1})
        second = database.save({**first, "v": 2})
        assert database.get("two") == second
        with pytest.raises(pycouchdb.exceptions.Conflict):
            database.save({**first, "v": 3})
        database.delete("two")
        assert "two" not in database
        with pytest.raises(pycouchdb.exceptions.NotFound):
            database.get("two")

    def test_many_documents(self, database):
        saved = database.save_bulk([{"_id": f"bulk-{number}"} for number in range(20)])
        assert len({document["_rev"] for document in saved}) == 1
        rows = list(database.all(keys=["bulk-3", "bulk-4"]))
        assert [row["doc"]["_id"] for row in rows] == ["bulk-3", "bulk-4"]
        database.delete_bulk(saved[:3])
        assert "bulk-0" not in database and "bulk-3" in database

    def test_attachments(self, database):
        document = database.save({"_id": "attached"})
        database.put_attachment(document, io.BytesIO(b"hello"), "a.txt", "text/plain")
        document = database.get("attached")
        assert database.get_attachment(document, "a.txt") == b"hello"
        database.delete_attachment(document, "a.txt")
        assert not database.get("attached").get("_attachments")

    def test_changes(self, database):
        since, _ = database.changes_list()
        database.save({"_id": "changed"})
        last, changes = database.changes_list(since=since)
        assert [change["id"] for change in changes] == ["changed"]
        found = []

        def read(message, db):
            found.append(message["id"])
            raise pycouchdb.exceptions.FeedReaderExited

        database.changes_feed(read, since=since)
        assert found == ["changed"]
