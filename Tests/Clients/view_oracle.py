"""What a view query must answer, computed from the documents by a plain loop.

The order of keys is that of views: null, false, true, numbers, strings, arrays, objects. Strings are
restricted to printable ASCII, whose order in ICU's root collation is `ALPHABET`: a string is first
compared without regard to case, then with lower case before upper case. Rows of equal keys are in the
order of the bytes of their documents' IDs, then in the order in which the map function emitted them.
"""

import itertools
import random
from collections import namedtuple

# Letters in both cases are one step of the order.
ALPHABET = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
STEPS = {character: step for step, character in enumerate(ALPHABET)}
STEPS.update({character.upper(): step for character, step in list(STEPS.items())})

Row = namedtuple("Row", "key id value")


class Refused(Exception):
    """The query contradicts itself."""


def sort_key(value):
    """A value that Python orders as views order their keys."""
    if value is None:
        return (1,)
    if value is False:
        return (2,)
    if value is True:
        return (3,)
    if isinstance(value, (int, float)):
        return (4, float(value))
    if isinstance(value, str):
        steps = tuple(STEPS[character] for character in value)
        return (5, steps, tuple(character.isupper() for character in value))
    if isinstance(value, (list, tuple)):
        return (6, tuple(sort_key(each) for each in value))
    pairs = ((sort_key(name), sort_key(each)) for name, each in value.items())
    return (7, tuple(itertools.chain.from_iterable(pairs)))


class View:
    """A view in both languages: JavaScript for the server, Python for the evaluation.

    `map` yields (key, value) pairs of a document and its ID. `reduce` is the name of a built-in
    function, or a pair of a JavaScript source and a Python function of (keys, values).
    """

    def __init__(self, source, map, reduce=None):
        self.source = source
        self.map = map
        self.reduce = reduce

    @property
    def json(self):
        """The view's member in a design document."""
        made = {"map": self.source}
        if self.reduce:
            made["reduce"] = self.reduce if isinstance(self.reduce, str) else self.reduce[0]
        return made

    def rows(self, documents):
        """All rows, sorted."""
        rows = [
            Row(key, id, value)
            for id, document in documents.items()
            for key, value in self.map(document, id)
        ]
        # The sort is stable, so rows of one document and key stay in the emitted order.
        return sorted(rows, key=place)

    def query(self, documents, **parameters):
        """The answer as a query with these parameters must have it."""
        return evaluate(self.rows(documents), self.reduce, **parameters)


def place(row):
    return sort_key(row.key), row.id.encode()


def evaluate(rows, function=None, /, **parameters):
    """The answer to a query of sorted rows, as the server's JSON: `rows`, and `total_rows` of a map.

    - Raises: `Refused` if the start is behind the end.
    """
    given = dict(parameters)
    is_reduced = function is not None and given.get("reduce", True)
    if "key" in given:
        given["startkey"] = given["endkey"] = given["key"]
    is_descending = given.get("descending", False)
    if "keys" in given:
        parts = [
            selected(rows, {**given, "startkey": key, "endkey": key}, is_descending)
            for key in given["keys"]
        ]
    else:
        parts = [selected(rows, given, is_descending)]
    if is_reduced:
        level = group_level(given)
        found = [each for part in parts for each in groups(part, function, level)]
    else:
        found = [row._asdict() for part in parts for row in part]
    first = given.get("skip", 0)
    found = found[first:]
    if "limit" in given:
        found = found[: given["limit"]]
    return {"rows": found} if is_reduced else {"total_rows": len(rows), "rows": found}


def selected(rows, given, is_descending):
    """The rows of a range, in the direction of the query."""
    has_start, has_end = "startkey" in given, "endkey" in given
    start = sort_key(given["startkey"]) if has_start else None
    end = sort_key(given["endkey"]) if has_end else None
    if has_start and has_end and (start < end if is_descending else end < start):
        raise Refused("no rows can match")

    def compare(row, key, id):
        """-1, 0 or 1: before, at or behind a bound, in the direction of the query."""
        key_of_row, id_of_row = place(row)
        sign = -1 if is_descending else 1
        if key_of_row != key:
            return sign if key_of_row > key else -sign
        if id is None or id_of_row == id.encode():
            return 0
        return sign if id_of_row > id.encode() else -sign

    def is_in_range(row):
        if has_start and compare(row, start, given.get("startkey_docid")) < 0:
            return False
        if has_end:
            side = compare(row, end, given.get("endkey_docid"))
            return side <= 0 if given.get("inclusive_end", True) else side < 0
        return True

    found = [row for row in rows if is_in_range(row)]
    return found[::-1] if is_descending else found


def group_level(given):
    """The elements of a key that make a group: 0 for one group of all, None for whole keys."""
    if given.get("group"):
        return None
    return given.get("group_level", 0)


def groups(rows, reduce, level):
    """The reduced rows of one range."""

    def key_of(row):
        if level == 0:
            return None
        if level is None or not isinstance(row.key, (list, tuple)):
            return row.key
        return list(row.key[:level])

    return [
        {"key": key_of(part[0]), "value": reduced(reduce, part)}
        for part in (
            list(each) for _, each in itertools.groupby(rows, lambda row: sort_key(key_of(row)))
        )
    ]


def reduced(reduce, rows):
    values = [row.value for row in rows]
    if reduce == "_count":
        return len(values)
    if reduce == "_sum":
        return sum(values)
    if reduce == "_stats":
        return {
            "sum": sum(values),
            "count": len(values),
            "min": min(values),
            "max": max(values),
            "sumsqr": sum(value * value for value in values),
        }
    return reduce[1]([row.key for row in rows], values)


# Random data


class Chance:
    """Random documents and queries from a seed, made of few values so that keys are often equal."""

    words = ["", "a", "A", "aa", "b", "B", "ba", "a-b", "a_b", "a b", "Zoo", "zoo", "1", "~", "x:y"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def scalar(self):
        return self.random.choice(
            [
                None,
                False,
                True,
                self.random.randint(-3, 12),
                self.random.randint(-8, 8) / 4,
                self.random.choice(self.words),
                self.random.choice(self.words),
            ]
        )

    def key(self, depth=0):
        kind = self.random.random()
        if kind < 0.45 or depth > 1:
            return self.scalar()
        if kind < 0.9:
            return [self.key(depth + 1) for _ in range(self.random.randint(0, 3))]
        # Names that are no numbers: JavaScript orders those before all other names.
        names = self.random.sample(["a", "B", "b c"], self.random.randint(0, 2))
        return {name: self.scalar() for name in names}

    def document(self):
        count = self.random.choice([0, 1, 1, 1, 2, 3])
        return {"keys": [self.key() for _ in range(count)], "n": self.random.randint(-40, 40) / 2}

    def query(self, rows, has_reduce):
        """Parameters of a query; bounds are mostly keys that rows have."""
        chance = self.random.random
        made = {}

        def bound():
            return self.random.choice(rows).key if rows and chance() < 0.8 else self.key()

        kind = chance()
        if kind < 0.15:
            made["key"] = bound()
        elif kind < 0.3:
            made["keys"] = [bound() for _ in range(self.random.randint(0, 4))]
        elif kind < 0.9:
            if chance() < 0.8:
                made["startkey"] = bound()
            if chance() < 0.8:
                made["endkey"] = bound()
            if chance() < 0.3:
                made["inclusive_end"] = chance() < 0.5
        if "keys" not in made and rows:
            for name in ("startkey_docid", "endkey_docid"):
                if chance() < 0.25:
                    made[name] = self.random.choice(rows).id
        if chance() < 0.4:
            made["descending"] = chance() < 0.8
        if chance() < 0.3:
            made["skip"] = self.random.randint(0, 6)
        if chance() < 0.5:
            made["limit"] = self.random.randint(0, 20)
        if has_reduce:
            kind = chance()
            if kind < 0.3:
                made["reduce"] = False
            elif kind < 0.5 or "keys" in made:
                made["group"] = True
            elif kind < 0.9:
                made["group_level"] = self.random.randint(0, 4)
        return made
