"""What the generator knows of a database: learned from answers, so the same for every gateway."""

import dataclasses
import pathlib


@dataclasses.dataclass
class Document:
    """A document by its revisions. Which leaf wins is not known, and not needed."""

    id: str
    leaves: list = dataclasses.field(default_factory=list)
    known: list = dataclasses.field(default_factory=list)
    fields: dict = dataclasses.field(default_factory=dict)
    stubs: dict = dataclasses.field(default_factory=dict)
    deleted: bool = False

    def add(self, revision, history=(), fields=None, deleted=False):
        """A revision that the gateway has accepted; `history` has its ancestors."""
        if revision not in self.known:
            self.leaves.append(revision)
            self.known.append(revision)
        self.leaves = [each for each in self.leaves if each not in history or each == revision]
        self.known += [each for each in history if each and each not in self.known]
        self.deleted = deleted
        if fields is not None:
            self.fields = fields
            self.stubs = {}


@dataclasses.dataclass
class Database:
    """A database of the campaign, with the kind of its sync function."""

    name: str
    kind: str
    users: dict = dataclasses.field(default_factory=dict)
    disabled: set = dataclasses.field(default_factory=set)
    roles: list = dataclasses.field(default_factory=list)
    documents: dict = dataclasses.field(default_factory=dict)
    locals: dict = dataclasses.field(default_factory=dict)
    sessions: list = dataclasses.field(default_factory=list)
    designs: list = dataclasses.field(default_factory=list)
    sequences: list = dataclasses.field(default_factory=lambda: ["0", "1"])
    channels: list = dataclasses.field(default_factory=list)
    fences: int = 0
    # Whether the feed may lack rows of earlier writes.
    is_unsettled: bool = True

    @property
    def has_roles(self):
        """Whether users have roles; otherwise requests name channels.

        For channels that a request names, the real gateway does not know when the user got the role.
        """
        return self.kind in ("plain", "grants")

    @property
    def has_fixed_grants(self):
        """Whether each user has the same channels from the start; only then a document may have two of them.

        The real gateway sends a document again with each later grant of one of its channels, ours once.
        """
        return self.kind == "short"

    def document(self, name):
        return self.documents.setdefault(name, Document(name))


SECOND_OWNERS = """function (doc, oldDoc) {
  var source = doc._deleted ? oldDoc : doc;
  if (!source.tag) { throw({forbidden: "no tag"}); }
  if (!source.owner) { throw({forbidden: "no owner"}); }
  access(source.owner, ["public", "of-" + source.owner]);
  if (!doc._deleted && oldDoc && !oldDoc._deleted && doc.tag != oldDoc.tag) {
    throw({forbidden: "tag of " + doc._id + " changed"});
  }
  if (source.tag == "public") { channel("public"); }
  else { requireUser(source.owner); if (!doc._deleted) { channel("of-" + source.owner); } }
}"""

GRANTS = """function (doc, oldDoc) {
  if (doc.refuse) { throw({forbidden: doc.refuse}); }
  if (doc.deny) { throw({unauthorized: doc.deny}); }
  if (doc.raise) { throw("raised"); }
  if (doc.owner) { requireUser(doc.owner); }
  if (doc.needs_role) { requireRole(doc.needs_role); }
  if (doc.needs_channel) { requireAccess(doc.needs_channel); }
  if (oldDoc && oldDoc.isFinal) { throw({forbidden: "final"}); }
  channel(doc.channels);
  access(doc.readers, doc.opens);
  role(doc.members, doc.titles);
}"""

# The sync function of the configuration file, between back-quotes.
FILE = pathlib.Path(__file__).resolve().parents[3] / "Fuzzing/Seeds/configuration/walrus-jane-joe"
TAGGED = FILE.read_text(encoding="utf-8").split("`")[1]

# By the kind of a database: what its configuration has besides server, bucket and users.
KINDS = {
    "demo": {"sync": TAGGED, "unsupported": {"user_views": {"enabled": True}}},
    "plain": {},
    "owners": {"sync": SECOND_OWNERS, "unsupported": {"user_views": {"enabled": True}}},
    "grants": {"sync": GRANTS, "allow_empty_password": True},
    "short": {"revs_limit": 4},
}
CHANNELS = {
    "demo": ["_public", "_jane", "_joe"],
    "plain": ["news", "sport", "ärger", "x.y"],
    "owners": ["public", "of-kim", "of-lou"],
    "grants": ["news", "sport", "desk", "vault"],
    "short": ["news", "sport"],
}
