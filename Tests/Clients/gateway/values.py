"""JSON values and ids of the stream, drawn from a generator of random numbers."""

import json
import string

# First characters are above those of the ids that a gateway makes (hexadecimal digits), in the order
# of bytes and in that of view keys, so that ranges of ids do not depend on made ids.
NAMES = (
    "walk hill lake moor path ridge stone tarn view wood yard glen isle knoll quay river".split()
)
# So do two letters before odd characters: the real gateway has `_all_docs` in the order of view keys.
ODD_IDS = (
    "g h",
    "ja über",
    "jb 日本",
    "jc+y",
    "jd.n",
    'je"q',
    "jf_u",
    "jg-u",
    "jhA",
    "jjTa",
    "jk&t=u",
    "jl;t",
    "jm 😀 smile",
    "jn/o",
    "jo/o/p",
    "jp,p",
    "jq#q",
    "jr?q",
    "js<s>",
    "jt'r",
    "ju\\w",
    "jv" + "w" * 248,
)
STRINGS = (
    "",
    "plain",
    'with "quotes" and \\',
    "<b>&amp;</b>",
    "ünïcödé",
    "日本語",
    "😀",
    "line\nbreak\ttab",
    "\u2028 and \u2029",
    "\u0000\u001f",
    "\u007f\u0080",
    "/slash/",
)
NUMBERS = (
    "0 7 -12 1.0 0.1 1e3 1E-7 -1.5e-300 1e20 1e21 123456.789e3 4294967296 123456789012 "
    "9007199254740991 9007199254740993 12345678901234567890 0.1000000000000000055511151231257827"
).split()


class Number(str):
    """A number by the text that is sent."""


def dumps(value, ascii_only=False):
    """JSON of a value that may have `Number`s."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(k, ensure_ascii=ascii_only)}:{dumps(v, ascii_only)}"
            for k, v in value.items()
        )
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dumps(each, ascii_only) for each in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


def value(random, depth=2):
    """Any JSON value; objects and arrays are at most `depth` deep."""
    kind = random.random()
    if kind < 0.35:
        return random.choice(STRINGS)
    if kind < 0.65:
        return Number(random.choice(NUMBERS))
    if kind < 0.8 or depth == 0:
        return random.choice((True, False, None, random.randrange(1000)))
    if kind < 0.9:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {name: value(random, depth - 1) for name in random.sample(string.ascii_letters, 2)}


def payload(random):
    """Members of a document that mean nothing to any sync function."""
    members = {"n": random.randrange(100)}
    if random.random() < 0.3:
        members[random.choice(("a", "Z", "é", "x y", "k.l"))] = value(random)
    if random.random() < 0.06:
        members["long"] = "lorem ipsum " * random.randrange(20, 200)
    return members


def digest(random):
    """The second part of a revision id as some client may have made it."""
    if random.random() < 0.7:
        return "%032x" % random.getrandbits(128)
    return random.choice(
        ("a", "b", "abc", "f00", "ABCDEF", "z-1", "%040x" % random.getrandbits(160))
    )


def attachment(random):
    """The bytes of an attachment."""
    size = random.choice((0, 1, 5, 150, 200, 201, 700, 1500, 5000))
    if random.random() < 0.5:
        return (b"The quick brown fox. " * 300)[:size]
    return random.randbytes(size)
