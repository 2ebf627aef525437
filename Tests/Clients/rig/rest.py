"""The admin port, as a tool sees it: one request, one reply, nothing hidden."""

import base64
import http.client
import json
import urllib.parse


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.text[:200]!r}>"


class Rest:
    """Requests to a port; `source` is the client's address, if it has several.

    With `context`, that of the module `ssl`, they are sent over TLS.
    """

    def __init__(self, port, login, host="127.0.0.1", source=None, context=None):
        self.context = context
        self.port = port
        self.source = (source, 0) if source else None
        self.host = host
        self.login = login

    def as_user(self, user, password):
        return Rest(self.port, (user, password), self.host, context=self.context)

    def _connection(self, seconds):
        options = {"timeout": seconds, "source_address": self.source}
        if self.context is None:
            return http.client.HTTPConnection(self.host, self.port, **options)
        return http.client.HTTPSConnection(
            self.host, self.port, context=self.context, **options
        )

    def _headers(self, extra):
        headers = {}
        if self.login is not None:
            token = base64.b64encode(":".join(self.login).encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        headers.update(extra or {})
        return headers

    def request(self, method, path, body=None, headers=None, seconds=30):
        connection = self._connection(seconds)
        try:
            connection.request(method, path, body, self._headers(headers))
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def post(self, path, form=None, **options):
        return self._send_form("POST", path, form, options)

    def put(self, path, form=None, **options):
        return self._send_form("PUT", path, form, options)

    def _send_form(self, method, path, form, options):
        body = urllib.parse.urlencode(form or {})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        headers.update(options.pop("headers", None) or {})
        return self.request(method, path, body, headers, **options)

    def head_of(self, method, path, body=None, headers=None, seconds=30):
        """The reply without the body of a success, which may be a stream without an end."""
        connection = self._connection(seconds)
        try:
            connection.request(method, path, body, self._headers(headers))
            answer = connection.getresponse()
            text = answer.read() if answer.status >= 300 else b""
            answer.close()
            return Reply(answer.status, answer.headers, text)
        finally:
            connection.close()

    def stream(self, path, seconds=30):
        """A streaming route: yields each document, without the four line ends behind it."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        connection.request("GET", path, headers=self._headers(None))
        return Stream(connection, connection.getresponse())


class Stream:
    delimiter = b"\n\n\n\n"

    def __init__(self, connection, answer):
        self.connection = connection
        self.answer = answer
        self.status = answer.status
        self.headers = answer.headers
        self.buffer = b""

    def next(self):
        """The bytes of the next document; None if the server has ended the stream."""
        while self.delimiter not in self.buffer:
            part = self.answer.read1(65536)
            if not part:
                return None
            self.buffer += part
        document, self.buffer = self.buffer.split(self.delimiter, 1)
        return document

    def close(self):
        # Both, or the socket stays open as long as the answer does.
        self.answer.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
