"""The documents of the builds: 1 KiB of JSON each, the same ones for every peer."""

import json
import random

KEY_BYTES = 22
BYTES = 1_024
MAP = "function (doc, meta) { if (doc.type === 'user') emit(doc.age, null); }"

NAMES = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "Katherine", "Konrad",
         "Lynn", "Margaret", "Niklaus", "Radia", "Tony", "Vera")
WORDS = ("amber", "anchor", "basket", "beacon", "bridge", "candle", "canyon", "cedar", "cloud",
         "copper", "delta", "desert", "ember", "falcon", "feather", "forest", "garden", "glacier",
         "harbor", "island", "ivory", "lantern", "maple", "marble", "meadow", "nectar", "ocean",
         "orchard", "pebble", "pine", "quartz", "raven", "river", "saffron", "silver", "stone",
         "thunder", "timber", "valley", "velvet", "willow", "winter", "zephyr")


def key(number):
    return b"document-%013d" % number


def texts(draw, count=2_048):
    """Different texts, longer than a document needs."""
    return ["".join(f"{draw.choice(WORDS)} " for _ in range(BYTES // 4)) for _ in range(count)]


def users(count, seed=1):
    """(key, value) pairs; nine of ten have a row. About half of a value is fields, half is text."""
    draw = random.Random(seed)
    pool = texts(draw)
    fields = [inner_fields(draw) for _ in range(2_048)]
    for number in range(count):
        name, age = draw.choice(NAMES), draw.randrange(18, 96)
        kind = "user" if draw.random() < 0.9 else "group"
        value = (
            f'{{"type":"{kind}","name":"{name} {draw.choice(WORDS).title()}",'
            f'"email":"{name.lower()}{number}@example.com","age":{age},"number":{number},'
            f'{draw.choice(fields)},"text":"'
        )
        text = pool[number % len(pool)][:BYTES - len(value) - 2]
        yield key(number), f'{value}{text}"}}'.encode()


def inner_fields(draw):
    """What documents have that no view reads."""
    return json.dumps({
        "balance": draw.randrange(1_000_000) / 100,
        "active": draw.random() < 0.5,
        "manager": None,
        "tags": draw.sample(WORDS, 3),
        "address": {
            "street": f"{draw.choice(WORDS).title()} Road {draw.randrange(200)}",
            "city": draw.choice(WORDS).title(), "zip": str(draw.randrange(10_000, 99_999)),
            "position": [draw.randrange(18_000) / 100, draw.randrange(9_000) / 100],
        },
        "orders": [
            {"item": draw.choice(WORDS), "count": draw.randrange(9),
             "price": draw.randrange(10_000) / 100, "sent": draw.random() < 0.8}
            for _ in range(4)
        ],
    }, separators=(",", ":"))[1:-1]


def write_lines(path, pairs):
    """The values as lines, for the peers; returns their number."""
    count = 0
    with open(path, "wb", 1 << 20) as file:
        for _, value in pairs:
            file.write(value + b"\n")
            count += 1
    return count
