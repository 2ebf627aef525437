"""A client of the HTTP feed of changes: one request, and its lines or events as they come."""

import http.client
import json
import urllib.parse


class Feed:
    """One request for a feed; iterating yields its objects, heartbeats as None."""

    def __init__(self, node, bucket, seconds=60, method="GET", body=None, headers=None, **query):
        rest = node.admin
        self.connection = http.client.HTTPConnection(rest.host, rest.port, timeout=seconds)
        target = f"/pools/default/buckets/{bucket}/changes?{urllib.parse.urlencode(query)}"
        self.connection.request(method, target, body, rest._headers(headers))
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.is_events = query.get("feed") == "eventsource"
        self.last_id = None

    def __iter__(self):
        return self._events() if self.is_events else self._lines()

    def _lines(self):
        while line := self.answer.readline():
            yield json.loads(line) if line.strip() else None

    def _events(self):
        while line := self.answer.readline():
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                self.last_id = line[4:]
            elif line.startswith("data: "):
                yield json.loads(line[6:])
            elif line == ":":
                yield None

    @property
    def refusal(self):
        return json.loads(self.answer.read())

    def close(self):
        self.answer.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Answer:
    """A whole feed: its changes in order, the last token, rollbacks and errors."""

    def __init__(self, node, bucket, **options):
        self.changes, self.rollbacks, self.errors, self.token = [], [], [], None
        with Feed(node, bucket, **options) as feed:
            self.status = feed.status
            if self.status != 200:
                self.refusal = feed.refusal
                return
            for each in feed:
                self.take(each)

    def take(self, each):
        if each is None:
            return
        if "token" in each:
            self.token = each["token"]
        elif "rollback" in each:
            self.rollbacks.append((each["rollback"]["vb"], each["rollback"]["seqno"]))
        elif "error" in each:
            self.errors.append(each)
        else:
            self.changes.append(each)

    @property
    def ids(self):
        return [each["id"] for each in self.changes]
