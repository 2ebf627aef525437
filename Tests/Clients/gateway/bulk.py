"""Requests of several documents: `_bulk_docs`, `_bulk_get`, `_revs_diff`, `_all_docs`."""

import base64
import json

from . import values
from .attachments import AttachmentMaker
from .maker import content
from .model import Document
from .request import query


class BulkMaker(AttachmentMaker):
    def bulk_request(self):
        return self.weighted(
            (
                (24, self.bulk_docs),
                (26, self.bulk_get),
                (22, self.revs_diff),
                (24, self.all_docs),
                (3, self.bad_bulk),
            )
        )()

    def bulk_docs(self):
        """A document is in the batch once: two changes of it would race in the gateway's feed."""
        caller = self.caller()
        has_edits = self.chance(0.65)
        items, learns, used = [], [], set()
        for _ in range(self.random.randrange(1, 7)):
            document = self.any_document() if self.chance(0.7) else Document(self.new_id())
            document = self.database.documents.get(document.id, document)
            if document.id in used:
                continue
            used.add(document.id)
            body, learn = self._bulk_item(caller, document, has_edits)
            items.append(body)
            learns.append(learn)
        if self.chance(0.08):
            items.append({"_id": "_local/bulk", "n": self.random.randrange(9)})
        if has_edits and self.chance(0.12):
            items.append(self.fields(caller, Document("")))
        body = {"docs": items}
        if not has_edits:
            body["new_edits"] = False

        def learn_all(answer):
            rows = content(answer)
            if answer["status"] == 201 and isinstance(rows, list):
                self.database.is_unsettled = True
                for row, learn in zip(rows, learns):
                    learn(row)

        return self.ask(caller, "POST", "_bulk_docs", body, learn=learn_all)

    def _bulk_item(self, caller, document, has_edits):
        """A member of `docs`, and the update of the model by its row."""
        if has_edits:
            fields, history = self.fields(caller, document), ()
            body = {"_id": document.id, **fields}
            if document.leaves and self.chance(0.85):
                body["_rev"] = self.revision(document)
                history = (body["_rev"],)
            if self.chance(0.1):
                body["_deleted"] = True
        else:
            body, fields, history = self.historical_body(caller, document)
            body["_id"] = document.id
            history = tuple(history[1:])
        if self.chance(0.1):
            data = base64.b64encode(values.attachment(self.random)).decode()
            body["_attachments"] = {"photo": {"content_type": "image/png", "data": data}}

        def learn(row):
            if row.get("rev") and "error" not in row:
                kept = self.database.documents.setdefault(document.id, document)
                kept.add(row["rev"], history, fields, "_deleted" in body)

        return body, learn

    def bulk_get(self):
        items = []
        for _ in range(self.random.randrange(1, 6)):
            document = self.any_document()
            item = {"id": document.id}
            if self.chance(0.6):
                item["rev"] = self.revision(document)
            if self.chance(0.25):
                item["atts_since"] = [self.revision(document)]
            if self.chance(0.15):
                item["revs_from"] = [self.revision(document)]
            items.append(item)
        if self.chance(0.04):
            items.append(self.pick(({}, {"id": 7}, {"id": "x", "rev": 7}, {"id": ""})))
        options = {}
        if self.chance(0.6):
            options["revs"] = True
            if self.chance(0.2):
                options["revs_limit"] = self.pick((1, 2, 50))
        if self.chance(0.5):
            options["attachments"] = True
        headers = (
            [("Accept", self.pick(("multipart/mixed", "*/*", "multipart/*")))]
            if self.chance(0.3)
            else []
        )
        if self.chance(0.3):
            headers.append(("X-Accept-Part-Encoding", "gzip"))
        if self.chance(0.005):
            headers = [("Accept", "application/json")]
        path = "_bulk_get" + query(**options)
        return self.ask(self.caller(), "POST", path, {"docs": items}, headers)

    def revs_diff(self):
        asked = {}
        for _ in range(self.random.randrange(1, 6)):
            document = self.any_document()
            count = self.random.randrange(1, 4)
            asked[document.id] = [self.revision(document) for _ in range(count)]
        if self.chance(0.05):
            asked[self.pick(("_design/x", "_odd", ""))] = ["1-a"]
        return self.ask(self.caller(), "POST", "_revs_diff", asked)

    def all_docs(self):
        """All documents, a range that begins behind the ids that a gateway makes, or some ids."""
        options = {}
        for name, probability in (
            ("include_docs", 0.3),
            ("channels", 0.3),
            ("access", 0.2),
            ("revs", 0.15),
            ("update_seq", 0.15),
        ):
            if self.chance(probability):
                options[name] = self.pick((True, True, True, False))
        caller, form = self.caller(), self.random.random()
        if form < 0.3:
            keys = [self.any_document().id for _ in range(self.random.randrange(5))]
            if self.chance(0.5):
                options["keys"] = json.dumps(keys)
                return self.ask(caller, "GET", "_all_docs" + query(**options))
            body = (
                {"keys": keys} if self.chance(0.93) else self.pick(({}, {"keys": 7}, {"keys": [7]}))
            )
            return self.ask(caller, "POST", "_all_docs" + query(**options), body)
        if form < 0.6:
            start = self.pick(("g", "jb", "m", "tarn", "w"))
            options["startkey"] = json.dumps(start) if self.chance(0.7) else start
            if self.chance(0.5):
                options["endkey"] = json.dumps(self.pick(("n", "stone-9", "x", "zzz")))
            if self.chance(0.6):
                options["limit"] = self.pick((0, 1, 2, 5, "x", "-3"))
        if self.chance(0.01):
            options[self.pick(("descending", "skip", "key"))] = self.pick(("true", "1", '"lake-1"'))
        if self.chance(0.03):
            options["keys"] = self.pick(("x", "7", "{}"))
        return self.ask(
            caller, self.weighted(((9, "GET"), (1, "HEAD"))), "_all_docs" + query(**options)
        )

    def bad_bulk(self):
        path = self.pick(("_bulk_docs", "_bulk_get", "_revs_diff", "_all_docs"))
        texts = (
            b"",
            b"[]",
            b"{}",
            b'{"docs":7}',
            b'{"docs":[]}',
            b'{"a":7}',
            b"{",
        )
        body, headers = self.pick(texts), [("Content-Type", "application/json")]
        if self.chance(0.1):
            headers = [("Content-Type", "text/plain")]
        return self.ask(self.caller(), "POST", path, body, headers)
