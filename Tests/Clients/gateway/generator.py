"""The stream of requests: `next` gives one, `learn` gets its answer, and the seed decides the rest.

The stream uses several databases one after the other, each with another kind of sync function: the
feeds of the real gateway depend on its clock once a database has more than 500 changes or is older
than a minute.
"""

import json
import random

from . import model
from .odd import OddMaker
from .request import ADMIN, JSON, Request

# Requests to the database of the configuration file, and to each later one.
FIRST_REQUESTS = 100
DATABASE_REQUESTS = 250
ORDER = ("plain", "grants", "owners", "short", "demo")


class Generator:
    """Requests that depend on the seed and on the answers to earlier ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.maker = OddMaker(self.random)
        self.count = 0
        self.databases = 1
        self.next_change = FIRST_REQUESTS
        users = {"jane": "password", "joe": "password"}
        channels = model.CHANNELS["demo"]
        self.maker.database = model.Database("demo", "demo", users, channels=channels)
        self.kinds = (
            (30, self.maker.document_request),
            (12, self.maker.attachment_request),
            (15, self.maker.bulk_request),
            (17, self.maker.feed_request),
            (4, self.maker.local_request),
            (5, self.maker.principal_request),
            (4, self.maker.session_request),
            (5, self.maker.administration_request),
            (0.4, self.maker.view_request),
            (6, self.maker.odd_request),
        )
        self.maker.queue += _first_requests()
        self.sent = None

    def next(self):
        """The next request. `learn` must be called with its answer before the next one."""
        self.count += 1
        queue = self.maker.queue
        if not queue and self.count >= self.next_change:
            self.next_change += DATABASE_REQUESTS
            queue += self.maker.purges()
            if self.random.random() < 0.5:
                queue += self.maker.maintenance()
            queue += self._change_database()
        made = queue.pop(0) if queue else self.maker.weighted(self.kinds)()
        self.sent = self.maker.settled(made)
        return self.sent

    def learn(self, answer):
        if self.sent.learn:
            self.sent.learn(answer)

    def _change_database(self):
        """The old database is deleted, and one of the next kind is made."""
        old = self.maker.database.name
        kind = ORDER[(self.databases - 1) % len(ORDER)]
        name = f"{kind}{self.databases}"
        self.databases += 1
        channels = model.CHANNELS[kind]
        one, other = ("jane", "joe") if kind == "demo" else ("kim", "lou")
        configuration = {
            "server": "walrus:",
            "bucket": name,
            # The real gateway caches a revision as it was sent: a GET would show its `_revisions`.
            "rev_cache_size": 1,
            "users": {
                "GUEST": {"disabled": self.random.random() < 0.5, "admin_channels": channels[:1]}
            },
            **model.KINDS[kind],
        }
        users = {one: "letmein", other: "letmein"}
        self.maker.database = model.Database(name, kind, users, roles=["staff"], channels=channels)
        first = {"password": "letmein", "admin_channels": channels[:2]}
        if self.maker.database.has_roles:
            first["admin_roles"] = ["staff"]
        second = {"password": "letmein", "admin_channels": channels if kind == "short" else []}
        return [
            Request("DELETE", f"/{old}/", port=ADMIN),
            _put(f"/{name}/", configuration),
            _put(f"/{name}/_role/staff", {"admin_channels": channels[-1:]}),
            _put(f"/{name}/_user/{one}", first),
            _put(f"/{name}/_user/{other}", second),
        ]


def _put(target, body):
    return Request("PUT", target, [JSON], json.dumps(body).encode(), ADMIN)


def _first_requests():
    """The principals of the configuration file are saved again, in an order that is known.

    At its start the real gateway saves them in the order of a hash table.
    """
    found = []
    for name, channels in (
        ("GUEST", ["*"]),
        ("jane", ["_public", "_jane"]),
        ("joe", ["_public", "_joe"]),
    ):
        settings = {"disabled": name == "GUEST", "admin_channels": []}
        found.append(_put(f"/demo/_user/{name}", settings))
        found.append(_put(f"/demo/_user/{name}", settings | {"admin_channels": channels}))
    return found
