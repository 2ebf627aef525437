"""Requests of the feed of changes, in all its forms."""

import json

from .bulk import BulkMaker
from .maker import ADMINISTRATOR
from .model import Document
from .request import query

# How long a feed without new rows lasts, in milliseconds.
SHORT_MILLISECONDS = 150


class FeedMaker(BulkMaker):
    def feed_request(self):
        return self.weighted(
            (
                (46, self.normal_feed),
                (14, self.posted_feed),
                (10, self.long_poll),
                (9, self.continuous_feed),
                (8, self.socket_feed),
                (7, self.documents_feed),
                (5, self.bad_feed),
            )
        )()

    def settled(self, request):
        """The request, or a fence before it if its answer depends on rows that may not be there yet."""
        has_rows = "/_changes" in request.target or "/_dumpchannel" in request.target
        if not has_rows or not self.database.is_unsettled:
            return request
        self.queue.insert(0, request)
        return self.fence()

    def fence(self):
        """A document that only administrators see. Its row says that all earlier rows are there."""
        database = self.database
        database.fences += 1
        name = f"zz-fence-{database.fences}"
        body = {"tag": "fence", "owner": "stranger", "n": database.fences}

        def learn(answer):
            database.is_unsettled = False

        request = self.ask(ADMINISTRATOR, "PUT", name, body, learn=learn, settles=name)
        request.headers = [("Content-Type", "application/json")]
        request.body = json.dumps(body).encode()
        return request

    def since(self):
        choice = self.random.random()
        if choice < 0.3:
            return None
        if choice < 0.86:
            return self.pick(self.database.sequences)
        if choice < 0.95:
            return self.pick(
                ("0", "99999", "3::7", '"5"', "1::1", "9007199254740993")
            )
        return self.pick(("abc", "-1", "1:2:3:4", '"x"', "99999999999999999999"))

    def parameters(self):
        """Parameters that all forms of the feed have."""
        options = {"since": self.since()}
        if self.chance(0.45):
            options["limit"] = self.pick((1, 1, 2, 3, 5, 10, 50, 0))
        if self.chance(0.35):
            options["style"] = self.pick(("all_docs", "all_docs", "main_only", "odd"))
        if self.chance(0.25):
            options["include_docs"] = True
        if self.chance(0.25) and "limit" not in options:
            # With both, the real gateway counts rows that it leaves out.
            options["active_only"] = True
        if self.chance(0.6) and not self.database.has_roles:
            options["filter"] = "sync_gateway/bychannel"
            count = self.random.randrange(1, 3)
            options["channels"] = ",".join(self.random.sample(self.database.channels, count))
            if self.chance(0.15):
                options["channels"] = self.pick(("*", "!", "none", "news,*", ",", " news"))
        return options

    def normal_feed(self):
        options = self.parameters()
        if self.chance(0.2):
            options["feed"] = "normal"
        if self.chance(0.05):
            options[self.pick(("heartbeat", "timeout"))] = self.pick((30000, 1000, "x", 0))
        return self.ask(
            self.caller(), "GET", "_changes" + query(**options), learn=self.learn_sequences
        )

    def typed(self, options):
        """Options as members of a JSON body."""
        typed = {}
        for name, value in options.items():
            if value in (None, '"5"', "-1"):
                continue
            if name == "since" and value.isdigit() and self.chance(0.7):
                value = int(value)
            typed[name] = value
        return typed

    def posted_feed(self):
        body = self.typed(self.parameters())
        suffix = ""
        if self.chance(0.25) and "active_only" not in body:
            suffix = query(limit=self.pick((1, 2)), since=self.since())
        if self.chance(0.02):
            body["limit"] = self.pick(("3", 2.5, -1, None))
        return self.ask(
            self.caller(), "POST", "_changes" + suffix, body, learn=self.learn_sequences
        )

    def visible_write(self):
        """A new document for a feed that waits, written by an administrator."""
        database = self.database
        name = f"woken-{len(database.documents)}-{self.random.randrange(1000)}"
        fields = {"tag": "public", "owner": "stranger", "channels": database.channels[:1]}
        learn = self.learn_write(Document(name), "", fields)
        return self.ask(ADMINISTRATOR, "PUT", name, fields, learn=learn)

    def long_poll(self):
        options = self.parameters()
        options["feed"] = "longpoll"
        options["timeout"] = SHORT_MILLISECONDS
        wake = None
        if self.chance(0.4):
            # Nothing is new yet: the feed waits for the document.
            options["since"] = self.newest_sequence()
            options["timeout"] = 2000 if options.get("filter") is None else 2 * SHORT_MILLISECONDS
            wake = self.visible_write()
        return self._long_lived(options, wake, None)

    def newest_sequence(self):
        """A sequence at or behind the newest: everything before the fence has one below."""
        plain = [
            int(each) for each in self.database.sequences if each.isdigit() and int(each) < 90000
        ]
        return str(max(plain))

    def continuous_feed(self):
        options = self.parameters()
        options["feed"] = "continuous"
        options["timeout"] = SHORT_MILLISECONDS
        wake = self.visible_write() if self.chance(0.3) and "limit" not in options else None
        return self._long_lived(options, wake, "lines")

    def _long_lived(self, options, wake, feed):
        caller = self.caller()
        if self.chance(0.75):
            request = self.ask(caller, "GET", "_changes" + query(**options), feed=feed or "lines")
        else:
            request = self.ask(
                caller, "POST", "_changes", self.typed(options), feed=feed or "lines"
            )
        request.learn = self.learn_feed(request)
        request.wake = wake
        return request

    def learn_feed(self, request):
        def learn(answer):
            self.learn_sequences(answer)
            if request.wake and "wake" in answer:
                request.wake.learn(answer["wake"])

        return learn

    def socket_feed(self):
        options = self.parameters()
        options["timeout"] = SHORT_MILLISECONDS
        options.pop("filter", None)
        if options.get("channels") == ",":
            del options["channels"]
        body = self.typed(options)
        if self.chance(0.3):
            body["accept_encoding"] = "gzip"
        text = json.dumps(body).encode()
        if self.chance(0.04):
            text = self.pick((b"no json", b'{"since":"x"}', b"[]"))
        if len(text) % 100 == 0:
            # The real gateway reads 100 bytes at a time and waits for more after a full read.
            text += b" "
        path = "_changes?feed=websocket"
        request = self.ask(self.caller(), "GET", path, text, feed="socket")
        if self.chance(0.3) and "limit" not in options:
            request.wake = self.visible_write()
        request.learn = self.learn_feed(request)
        return request

    def documents_feed(self):
        ids = [self.any_document().id for _ in range(self.random.randrange(1, 5))]
        ids = list(dict.fromkeys(ids))
        options = self.parameters() | {"filter": "_doc_ids", "doc_ids": json.dumps(ids)}
        options.pop("channels", None)
        if self.chance(0.2):
            options["doc_ids"] = ",".join(ids)
        if self.chance(0.6):
            path = "_changes" + query(**options)
            return self.ask(self.caller(), "GET", path, learn=self.learn_sequences)
        body = self.typed(options) | {"doc_ids": ids}
        return self.ask(self.caller(), "POST", "_changes", body, learn=self.learn_sequences)

    def bad_feed(self):
        options = self.pick(
            (
                {"feed": "eventsource"},
                {"feed": "x"},
                {"filter": "nope"},
                {"filter": "sync_gateway/bychannel"},
                {"filter": "sync_gateway/bychannel", "channels": ""},
                {"filter": "_doc_ids"},
                {"filter": "_doc_ids", "doc_ids": "[]"},
                {"filter": "_doc_ids", "doc_ids": "[7]"},
                {"filter": "_doc_ids", "doc_ids": '["a"]', "feed": "longpoll"},
                {"since": "abc"},
                {"limit": "x", "since": "99999"},
            )
        )
        method = self.weighted(((8, "GET"), (1, "HEAD"), (1, "PUT")))
        if self.chance(0.1):
            texts = (
                b"no json",
                b'{"since":"x"}',
                b'{"feed":7}',
                b"[]",
                b'{"limit":1} x',
            )
            return self.ask(self.caller(), "POST", "_changes", self.pick(texts))
        return self.ask(self.caller(), method, "_changes" + query(**options))
