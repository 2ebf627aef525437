"""The view port of a node: design documents and queries of one bucket."""

import json
import urllib.parse

from .node import PASSWORD, USER
from .rest import Rest

# Values of these are JSON; all others are plain text.
JSON_PARAMETERS = ("key", "keys", "startkey", "endkey", "start_key", "end_key")


class Answer:
    """The response to a query."""

    def __init__(self, reply):
        self.status = reply.status
        self.headers = reply.headers
        self.text = reply.text
        self.json = reply.json if reply.body else None

    @property
    def rows(self):
        return self.json["rows"]

    @property
    def errors(self):
        return self.json.get("errors", [])

    @property
    def content(self):
        """The rows, and their total number if it is stated."""
        return {name: self.json[name] for name in ("total_rows", "rows") if name in self.json}

    @property
    def refusal(self):
        return self.status, self.json.get("error"), self.json.get("reason")

    def __repr__(self):
        return f"<{self.status} {self.text[:300]!r}>"


def text(name, value):
    """A parameter's value as a URL has it."""
    if name in JSON_PARAMETERS and not isinstance(value, Raw):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Raw(str):
    """A parameter's text that is sent as it is."""


class Views:
    """The views of a bucket on one node."""

    def __init__(self, node, bucket, login=(USER, PASSWORD)):
        port = int(node.flags[node.flags.index("--views-port") + 1])
        self.rest = Rest(port, login, node.host)
        self.bucket = bucket

    def path(self, document, view=None):
        path = f"/{urllib.parse.quote(self.bucket, safe='')}/_design/{document}"
        return path if view is None else f"{path}/_view/{view}"

    # Design documents

    def put(self, document, views, **members):
        """Creates or replaces a design document; `views` are JSON, `View`s, or sources of maps."""
        body = {
            "views": {
                name: {"map": view} if isinstance(view, str) else getattr(view, "json", view)
                for name, view in views.items()
            },
            **members,
        }
        return self.put_text(document, json.dumps(body))

    def put_text(self, document, body, content_type="application/json"):
        headers = {"Content-Type": content_type}
        return self.rest.request("PUT", self.path(document), body, headers)

    def get(self, document):
        return self.rest.get(self.path(document))

    def delete(self, document):
        return self.rest.delete(self.path(document))

    # Queries

    def query(self, document, view, body=None, seconds=60, **parameters):
        """One query; a POST if there is a body."""
        pairs = [(name, text(name, value)) for name, value in parameters.items()]
        return self.query_pairs(document, view, pairs, body, seconds)

    def query_pairs(self, document, view, pairs, body=None, seconds=60):
        """One query whose parameters may repeat."""
        path = self.path(document, view)
        if pairs:
            path += "?" + urllib.parse.urlencode(pairs)
        if body is None:
            return Answer(self.rest.get(path, seconds=seconds))
        headers = {"Content-Type": "application/json"}
        data = body if isinstance(body, (str, bytes)) else json.dumps(body)
        return Answer(self.rest.request("POST", path, data, headers, seconds=seconds))

    def fresh(self, document, view, **parameters):
        """A query of all changes that were made before it."""
        return self.query(document, view, stale=Raw("false"), **parameters)
