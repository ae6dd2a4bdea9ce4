"""Prints the records of TensorBoard event files: a decoder of its own, with bitwise checksums. Exit 1: a bad record."""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """A message as (number, value) pairs; lengths give bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif wire == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        elif wire == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "a field is longer than its message"
        else:
            raise AssertionError(f"wire type {wire}")
        found.append((number, value))
    return found


def one(message, number, default=b""):
    return next((value for found, value in fields(message) if found == number), default)


def value_of(message):
    (number, value), = fields(message)
    return {2: lambda: value, 3: lambda: value.decode(), 4: lambda: bool(value)}[number]()


def describe(value):
    tag = one(value, 1).decode()
    metadata = one(value, 9)
    plugin = one(one(metadata, 1), 1).decode() if metadata else ""
    if plugin == "hparams":
        session = one(one(one(metadata, 1), 2), 3)
        pairs = [entry for number, entry in fields(session) if number == 1]
        shown = " ".join(f"{one(pair, 1).decode()}={value_of(one(pair, 2))!r}" for pair in pairs)
        return f"hparams {one(session, 4).decode()!r}: {shown}"
    if plugin == "text":
        tensor = one(value, 8)
        assert one(tensor, 1) == 7, "a text must be a tensor of strings"
        return f"text {tag}={one(tensor, 8).decode()!r}"
    histogram = one(value, 5)
    if histogram:
        least, most, count, total, squares = (one(histogram, number, 0.0) for number in range(1, 6))
        edges, counts = (list(struct.iter_unpack("<d", one(histogram, number))) for number in (6, 7))
        assert len(edges) == len(counts) > 0, "as many edges as buckets"
        assert all(a < b for a, b in zip(edges, edges[1:])), "edges must ascend"
        assert sum(bucket for bucket, in counts) == count, "buckets must hold all values"
        full = " ".join(f"<{edge:.3g}:{bucket:g}" for (edge,), (bucket,) in zip(edges, counts) if bucket)
        return f"histogram {tag}: {count:g} from {least:g} to {most:g}, sum {total:g}, squares {squares:g}: {full}"
    return f"{tag}={one(value, 2)}"


def main():
    for path in sys.argv[1:]:
        data = open(path, "rb").read()
        at = 0
        while at < len(data):
            length, check = struct.unpack_from("<QI", data, at)
            assert masked(data[at:at + 8]) == check, "the checksum of a length is wrong"
            record = data[at + 12:at + 12 + length]
            assert masked(record) == struct.unpack_from("<I", data, at + 12 + length)[0], "a record's checksum is wrong"
            at += length + 16
            step = one(record, 2, 0)
            for number, value in fields(record):
                if number == 3:
                    print(f"step {step}: version {value.decode()}")
                elif number == 7:
                    assert one(value, 1) == 1
                    print(f"step {step}: session start")
                elif number == 5:
                    for found, inner in fields(value):
                        print(f"step {step}: {describe(inner)}")


main()
