"""Writes arrays of many types to OUT.arrow files and prints, for each, the digests and the type text
that the reference implementations beside the golden data give.

usage: digests.py GOLDEN_DIR OUT_DIR
"""
import datetime
import decimal
import importlib.util
import json
import os
import re
import sys

import pyarrow as pa

golden, out = sys.argv[1:3]


def load(name, path):
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


readers = load("rdigest", os.path.join(golden, "readers", "rdigest.py"))
rrd = load("gen", os.path.join(golden, "rrd", "gen.py"))

nan, inf = float("nan"), float("inf")
D = decimal.Decimal
both = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([-128, None, 127], pa.int8()),
    "uint8": pa.array([0, 255, None], pa.uint8()),
    "int64": pa.array([-(2**63), 2**63 - 1, None]),
    "uint64": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "f64": pa.array([0.0, -0.0, 1.5, inf, nan, None]),
    "f32": pa.array([0.1, -inf, nan, None], pa.float32()),
    "f16": pa.array([0.5, -2.0, None], pa.float16()),
    "string": pa.array(["", "süß", None]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "binary": pa.array([b"", b"\x00\xff", None]),
    "fixed_binary": pa.array([b"abcd", None], pa.binary(4)),
    "timestamp": pa.array([1, None, -5], pa.timestamp("ns")),
    "timestamp_zone": pa.array([1, None], pa.timestamp("us", tz="UTC")),
    "duration": pa.array([7, None], pa.duration("ms")),
    "null": pa.nulls(3),
    "list": pa.array([[1, None], [], None, [3]], pa.list_(pa.int32())),
    "list_u8": pa.array([[1, 2], [], None, [3, None]], pa.list_(pa.uint8())),
    "list_slice": pa.array([[9], [1, 2], None, [3]], pa.list_(pa.float32())).slice(1),
    "large_list": pa.array([["x"], None], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1.0, 2.0], None, [nan, 4.0]], pa.list_(pa.field("item", pa.float32(), False), 2)),
    "fixed_list_slice": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)).slice(1),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
                       pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
    "struct_slice": pa.array([{"a": [1]}, {"a": [2, 3]}], pa.struct([pa.field("a", pa.list_(pa.int64()))])).slice(1),
    "nested": pa.array([[{"p": [1.0, 2.0]}], None, []],
                       pa.list_(pa.struct([pa.field("p", pa.list_(pa.float64(), 2), False)]))),
    "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "list_dictionary": pa.ListArray.from_arrays([0, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode()),
}
readers_only = {
    "date32": pa.array([datetime.date(2024, 1, 2), None]),
    "time64": pa.array([1, None], pa.time64("us")),
    "time32": pa.array([1, None], pa.time32("s")),
    "decimal": pa.array([D("1.50"), D("-123456.78"), None], pa.decimal128(10, 2)),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "map_named": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.field("x", pa.int32()))),
    "string_view": pa.array(["a", "a string longer than twelve bytes", None], pa.string_view()),
    "binary_view": pa.array([b"a", None], pa.binary_view()),
}
types, offsets = pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32())
rrd_only = {
    "dense_union": pa.UnionArray.from_dense(types, offsets, [pa.array([1, None]), pa.array(["s"])], ["n", "s"]),
    "sparse_union": pa.UnionArray.from_sparse(types, [pa.array([1.0, 2.0, 3.0]), pa.array(["a", "b", "c"])], ["n", "s"]),
    "sparse_union_slice": pa.UnionArray.from_sparse(types, [pa.array([1.0, 2.0, 3.0]), pa.array(["a", "b", "c"])], ["n", "s"]).slice(1),
}

expected = {}
for name, array in {**both, **readers_only, **rrd_only}.items():
    text = re.sub(r" \('\w+'\)", "", str(array.type))
    case = {"type": text}
    if name not in readers_only:
        case["rrd"] = rrd.digest(array, array.type)
    if name not in rrd_only:
        case["readers"] = readers.digest(array)
    expected[name] = case
    batch = pa.record_batch([array], ["v"])
    with pa.ipc.new_file(os.path.join(out, name + ".arrow"), batch.schema) as writer:
        writer.write_batch(batch)
print(json.dumps(expected))
