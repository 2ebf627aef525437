"""Snappy without a library: enough of the format to write valid values and to read any."""


def compress(data):
    """A valid compressed form of literals alone, with a run of the first byte as a copy."""
    out = bytearray(_varint(len(data)))
    run = len(data) - len(data.lstrip(data[:1])) if data else 0
    place = 0
    if run > 8:
        out += _literal(data[:1])
        place = 1
        while run - place >= 4:
            count = min(64, run - place)
            # A copy with an offset of two bytes: the bytes before it, which are all equal.
            out += bytes([(count - 1) << 2 | 2, 1, 0])
            place += count
    for start in range(place, len(data), 60):
        out += _literal(data[start : start + 60])
    return bytes(out)


def decompress(data):
    """The decompressed form; raises ValueError for an invalid one."""
    count, place = _read_varint(data)
    out = bytearray()
    while place < len(data):
        tag, place = data[place], place + 1
        kind = tag & 3
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                more = length - 59
                length = int.from_bytes(data[place : place + more], "little")
                place += more
            out += data[place : place + length + 1]
            place += length + 1
            continue
        if kind == 1:
            length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[place]
            place += 1
        else:
            more = 2 if kind == 2 else 4
            length = (tag >> 2) + 1
            offset = int.from_bytes(data[place : place + more], "little")
            place += more
        if not 0 < offset <= len(out):
            raise ValueError(f"offset {offset} of {len(out)} bytes")
        for _ in range(length):
            out.append(out[-offset])
    if len(out) != count:
        raise ValueError(f"{len(out)} bytes instead of {count}")
    return bytes(out)


def stated(count):
    """The beginning of a value that states this length."""
    return bytes(_varint(count))


def _literal(data):
    return bytes([(len(data) - 1) << 2]) + data


def _varint(number):
    out = []
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return [*out, number]


def _read_varint(data):
    number = 0
    for place in range(5):
        number |= (data[place] & 0x7F) << 7 * place
        if data[place] < 0x80:
            return number, place + 1
    raise ValueError("no length")
