"""Draws random chunks with the peer: python format_peer.py SEED COUNT FOLDER.

Writes NNNNN.arrow (the chunk as an Arrow stream) and NNNNN.json (drawings with their arguments).
"""
import decimal
import json
import pathlib
import random
import struct
import sys
import warnings

import pyarrow as pa
from pyarrow import ipc
from rerun.chunk import Chunk

warnings.simplefilter("ignore")
rnd = random.Random(int(sys.argv[1]))
WORDS = ["a", "bb", "word", "longer_word", "x" * 25, "y" * 60, "é", "漢字", "", '"q"', "tab\tx", "new\nline", "{}", "1.5",
         "\U0001f600", "z  z", " lead", "trail ", "a/b:c", "\u0301e", "日本語テキスト"]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(),
         pa.float64(), pa.bool_(), pa.utf8(), pa.large_utf8(), pa.string_view(), pa.binary(), pa.large_binary(),
         pa.binary_view(), pa.binary(3), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
         pa.time64("ns"), pa.decimal128(12, 3), pa.decimal256(40, 0), pa.null(), pa.month_day_nano_interval(),
         pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ms", "+05:30")]
TYPES += [make(unit) for make in (pa.timestamp, pa.duration) for unit in PER_SECOND]


def tuid(n):
    return struct.pack(">QQ", 0x18A0000000000000 + n, 0x0001000000000000 + n)


def random_type(depth=0):
    if depth == 0 and rnd.random() < 0.05:
        return pa.dictionary(pa.int8(), pa.utf8())
    if depth > 2 or rnd.random() > 0.35:
        return rnd.choice(TYPES)
    item = random_field("item" if rnd.random() < 0.8 else "we ird", depth)
    kind = rnd.randrange(6)
    if kind == 0:
        return pa.struct([random_field(n, depth) for n in rnd.sample(["a", "b c", "x", "long_name"], rnd.randint(0, 4))])
    if kind == 1:
        return pa.map_(pa.utf8(), item.type)
    if kind == 2:
        return pa.list_(item, rnd.randint(1, 4))
    return [pa.list_, pa.large_list, pa.list_view][kind - 3](item)


def random_field(name, depth):
    t = random_type(depth + 1)
    return pa.field(name, t, nullable=rnd.random() < 0.7 or pa.types.is_null(t))


def integer(low, high):
    return rnd.choice([0, 1, low, high, rnd.randint(low, high), rnd.randint(0, 100)])


def value(t, nullable=True):
    if pa.types.is_null(t) or (nullable and rnd.random() < 0.12):
        return None
    if pa.types.is_boolean(t):
        return rnd.random() < 0.5
    if pa.types.is_unsigned_integer(t):
        return integer(0, 2**t.bit_width - 1)
    if pa.types.is_integer(t):
        return integer(-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1)
    if pa.types.is_floating(t):
        return rnd.choice([0.0, -0.0, 1.0, 0.1, 1e-5, 1e-6, 1e-7, 1e12, 1e13, 1e15, 1e16, float("nan"), float("inf"),
                           float("-inf"), rnd.random(), rnd.random() * 10 ** rnd.randint(-12, 22)])
    if t in (pa.utf8(), pa.large_utf8(), pa.string_view()):
        return " ".join(rnd.choice(WORDS) for _ in range(rnd.choice([0, 1, 1, 2, 3, 8, 30])))
    if pa.types.is_fixed_size_binary(t):
        return rnd.randbytes(3)
    if t in (pa.binary(), pa.large_binary(), pa.binary_view()):
        return rnd.randbytes(rnd.choice([0, 1, 5, 30, 80]))
    if t == pa.date64():
        return 86400000 * rnd.randint(-30000, 30000)
    if pa.types.is_date(t):
        return rnd.randint(-800000, 3000000)
    if pa.types.is_time(t):
        return rnd.choice([0, PER_SECOND[t.unit], rnd.randrange(86400 * PER_SECOND[t.unit])])
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        n = PER_SECOND[t.unit]
        return rnd.choice([0, 1, -1, n, 17 * 10**8 * n + rnd.choice([0, 1, n // 10, n // 1000]), rnd.randint(-(10**9) * n, 4 * 10**9 * n)])
    if pa.types.is_decimal(t):
        return decimal.Decimal(rnd.randint(-(10**8), 10**8)).scaleb(-t.scale)
    if t == pa.month_day_nano_interval():
        return (rnd.randint(-20, 20), rnd.choice([0, rnd.randint(-40, 40)]), rnd.choice([0, rnd.randint(-(10**14), 10**14)]))
    if pa.types.is_dictionary(t):
        return rnd.choice(["p", "q", "r s"])
    if pa.types.is_map(t):
        return [(f"k{i}", value(t.item_type)) for i in range(rnd.randint(0, 3))]
    if pa.types.is_struct(t):
        return {f.name: value(f.type, f.nullable) for f in t}
    count = t.list_size if pa.types.is_fixed_size_list(t) else rnd.choice([0, 1, 2, 3, 12, 40])
    return [value(t.value_type, t.value_field.nullable) for _ in range(count)]


def random_batch():
    rows = rnd.choice([0, 1, 2, 3, 5])
    columns = [("id", pa.array([tuid(rnd.randrange(10**6)) for _ in range(rows)], pa.binary(16)), {"rerun:kind": "control"})]
    for name in rnd.sample(["frame", "log_time", "very_long_timeline_name", "élan"], rnd.randint(0, 3)):
        t = rnd.choice([pa.int64(), pa.timestamp("ns"), pa.duration("ns")])
        columns.append((name, pa.array([value(t, False) for _ in range(rows)], t), {"rerun:kind": "index"}))
    for n in range(rnd.choice([0, 1, 2, 3, 6, 20, 48])):
        name = rnd.choice(["v", "Points3D:positions", "rerun.components.q", "w w", "漢字", "a_long_component_identifier"]) + str(n)
        md = {}
        if rnd.random() < 0.4:
            md["rerun:archetype"] = rnd.choice(["rerun.archetypes.Points3D", "my.Arch", "rerun.blueprint.archetypes.B"])
        if rnd.random() < 0.4:
            md["rerun:component_type"] = rnd.choice(["rerun.components.Position3D", "my.Ct", "rerun.blueprint.components.Q"])
        t = random_type()
        cells = [None if rnd.random() < 0.15 else [value(t) for _ in range(rnd.choice([0, 1, 1, 2, 30]))] for _ in range(rows)]
        columns.append((name, pa.array(cells, pa.list_(pa.field("item", t))), md))
    md = {"rerun:id": "chunk_" + tuid(rnd.randrange(10**9)).hex(), "rerun:entity_path": rnd.choice(["/", "/a/b", "/漢字/x y", "/" + "long" * 30])}
    return pa.RecordBatch.from_arrays([a for _, a, _ in columns], schema=pa.schema([pa.field(n, a.type, metadata=m or None) for n, a, m in columns], metadata=md))


folder = pathlib.Path(sys.argv[3])
for number in range(int(sys.argv[2])):
    chunk = Chunk.from_record_batch(random_batch())[0]
    drawings = []
    for width in rnd.sample([1, 20, 40, 80, 120, 160, 240, 300, 500], 2) + [240]:
        args = {"width": width, "redact": rnd.random() < 0.5, "trim_metadata_keys": rnd.random() < 0.7}
        drawings.append({"args": args, "text": chunk.format(**args)})
    batch = chunk.to_record_batch()
    with pa.OSFile(str(folder / f"{number:05d}.arrow"), "wb") as f, ipc.new_stream(f, batch.schema) as w:
        w.write_batch(batch)
    (folder / f"{number:05d}.json").write_text(json.dumps(drawings))
