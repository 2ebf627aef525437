"""JSON as it is written: a tree whose text is exactly the parsed text, spaces and line ends included."""

import json
import re

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
SPACE = re.compile(r"\s*")


class NotJSON(ValueError):
    """The text is no JSON value."""


class Literal:
    """A string, number, Boolean or null, by its text."""

    def __init__(self, text):
        self.text = text

    @property
    def value(self):
        return json.loads(self.text)


class Branch:
    """An array, or an object if it has `keys`. `spaces` is what is written around its members.

    `spaces[0]` follows the opening bracket, `spaces[i]` is between members i - 1 and i and has the
    comma, the last one precedes the closing bracket. A key has its quotes and its colon.
    """

    def __init__(self, items, spaces, keys=None):
        self.items = items
        self.spaces = spaces
        self.keys = keys

    @property
    def text(self):
        opening, closing = "[]" if self.keys is None else "{}"
        keys = self.keys or [""] * len(self.items)
        written = self.spaces[0]
        for key, item, space in zip(keys, self.items, self.spaces[1:]):
            written += key + item.text + space
        return opening + written + closing

    @property
    def names(self):
        """The names of an object's members, in their order."""
        return [json.loads(key.rstrip().rstrip(":")) for key in self.keys or ()]

    def sort(self, start=0):
        """Orders the members from `start` by their text; the spaces stay where they are."""
        keys = self.keys or [""] * len(self.items)
        pairs = sorted(
            zip(keys[start:], self.items[start:]), key=lambda each: each[0] + each[1].text
        )
        self.items[start:] = [item for _, item in pairs]
        if self.keys is not None:
            self.keys[start:] = [key for key, _ in pairs]

    def member(self, name):
        """The value of an object's member, or None."""
        return next((item for key, item in zip(self.names, self.items) if key == name), None)

    def put(self, name, item):
        """Replaces the value of a member that the object has."""
        self.items[self.names.index(name)] = item


class _Reader:
    def __init__(self, text):
        self.text = text
        self.at = 0

    def space(self):
        found = SPACE.match(self.text, self.at)
        self.at = found.end()
        return found[0]

    def token(self):
        found = TOKEN.match(self.text, self.at)
        if not found:
            raise NotJSON(self.text[self.at : self.at + 40])
        self.at = found.end()
        return found[0]

    def value(self):
        token = self.token()
        if token == "[":
            return self.branch("]", None)
        if token == "{":
            return self.branch("}", [])
        literal = Literal(token)
        try:
            literal.value
        except ValueError:
            raise NotJSON(token) from None
        return literal

    def branch(self, closing, keys):
        items, spaces = [], [self.space()]
        if self.text[self.at : self.at + 1] == closing:
            self.at += 1
            return Branch(items, spaces, keys)
        while True:
            if keys is not None:
                start = self.at
                is_name = self.token().startswith('"')
                self.space()
                if not is_name or self.token() != ":":
                    raise NotJSON(self.text[start : start + 40])
                self.space()
                keys.append(self.text[start : self.at])
            items.append(self.value())
            space = self.space()
            token = self.token()
            if token == closing:
                spaces.append(space)
                return Branch(items, spaces, keys)
            if token != ",":
                raise NotJSON(token)
            spaces.append(space + "," + self.space())


def parse(text):
    """The text before the value, the value's tree, the text after it."""
    reader = _Reader(text)
    before = reader.space()
    node = reader.value()
    after = reader.space()
    if reader.at != len(text):
        raise NotJSON(text[reader.at :])
    return before, node, after
