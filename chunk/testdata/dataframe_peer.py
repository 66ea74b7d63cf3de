"""Reads random record batches with the peer: python dataframe_peer.py SEED COUNT FOLDER.

Writes NNNNN.arrow (the batch), NNNNN.json (arguments; error or number of chunks) and
NNNNN.M.arrow (the chunks). All are Arrow streams.
"""
import json
import pathlib
import random
import re
import struct
import sys
import warnings

import pyarrow as pa
from pyarrow import ipc
from rerun.chunk import Chunk

warnings.simplefilter("ignore")
rnd = random.Random(int(sys.argv[1]))
ERRORS = {
    "cannot be unambiguously": "ambiguous_static",
    "was requested": "static_with_index",
    "not present in the record batch": "missing_index_column",
    "null values": "bad_index",
    "no component columns": "no_components",
    "more than one entity": "identified_multiple_entities",
    "nsupported": "bad_index",
    "more than once": "chunk_invalid",
    "Invalid column order": "column_order",
    "Multiple RowId": "row_id",
    "Unknown `rerun:kind`": "kind",
}


def tuid(n):
    return struct.pack(">QQ", 0x18A0000000000000 + n, 0x0001000000000000 + n)


def write(name, batch):
    with pa.OSFile(str(folder / name), "wb") as f, ipc.new_stream(f, batch.schema) as w:
        w.write_batch(batch)


def random_batch():
    rows = rnd.choice([0, 1, 3, 3])
    names = ["frame", "t", "v", "Points3D:positions", "/e:v", "/e:w", "/e/f g:x:y", "nolead:x", "/nocolon", "/e:", "property:p", "x y"]

    def values(t):
        return pa.array([None if rnd.random() < 0.1 else rnd.randint(0, 5) for _ in range(rows)], pa.int64()).cast(t)

    columns = []
    if rnd.random() < 0.5:
        md = rnd.choice([{"rerun:kind": "control"}, {"rerun:kind": "row_id"}, {"ARROW:extension:name": "rerun.datatypes.TUID"}])
        columns.append(("id", pa.array([tuid(rnd.randrange(1000)) for _ in range(rows)], pa.binary(16)), md))
    for _ in range(rnd.choice([0, 1, 1, 2])):
        t = rnd.choice([pa.int64()] * 4 + [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.int32(), pa.timestamp("us")])
        md = rnd.choice([{"rerun:kind": "index"}, {"rerun:kind": "index"}, {"rerun:kind": "time"}, {"rerun:index_name": "clock"}, {}])
        a = values(t) if rnd.random() < 0.1 else pa.array([rnd.randint(0, 5) for _ in range(rows)], pa.int64()).cast(t)
        columns.append((rnd.choice(["frame", "t"]), a, md))
    for _ in range(rnd.choice([0, 1, 2, 2, 4])):
        md = {}
        if rnd.random() < 0.15:
            md["rerun:entity_path"] = rnd.choice(["/e", "rel//x", "/a b"])
        if rnd.random() < 0.2:
            md["rerun:component"] = rnd.choice(["v", "Foo:bar", "/e:v"])
        if rnd.random() < 0.2:
            md["rerun:archetype"] = "rerun.archetypes.Points3D"
        if rnd.random() < 0.2:
            md["rerun:kind"] = rnd.choice(["data", "component", "odd"])
        a = values(pa.int64())
        kind = rnd.randrange(5)
        if kind == 0:
            a = pa.array([None if rnd.random() < 0.2 else [1] * rnd.randint(0, 3) for _ in range(rows)], pa.list_(pa.field("el", pa.int8(), nullable=rnd.random() < 0.5)))
        elif kind == 1:
            a = pa.array([None if rnd.random() < 0.2 else {"a": 1} for _ in range(rows)], pa.struct([("a", pa.int64())]))
        elif kind == 2:
            a = pa.nulls(rows)
        columns.append((rnd.choice(names), a, md))
    if rnd.random() < 0.1:
        rnd.shuffle(columns)
    md = {}
    if rnd.random() < 0.5:
        md["rerun:id"] = rnd.choice(["chunk_" + tuid(5).hex(), tuid(6).hex()])
    if rnd.random() < 0.4:
        md["rerun:entity_path"] = rnd.choice(["/batch", "batch//x", "/"])
    fields = [pa.field(n, a.type, metadata=m or None) for n, a, m in columns]
    return pa.RecordBatch.from_arrays([a for _, a, _ in columns], schema=pa.schema(fields, metadata=md or None))


folder = pathlib.Path(sys.argv[3])
for number in range(int(sys.argv[2])):
    batch = random_batch()
    args = {}
    if rnd.random() < 0.6:
        args["index"] = rnd.choice([None, "frame", "t", "v", [], ["frame"], ["frame", "t"], ["frame", "frame"]])
    if rnd.random() < 0.3:
        args["entity_path"] = rnd.choice(["/arg", "rel/x", "/"])
    result = {"args": args}
    try:
        chunks = Chunk.from_record_batch(batch, **args)
        result["chunks"] = len(chunks)
        for i, c in enumerate(chunks):
            write(f"{number:05d}.{i}.arrow", c.to_record_batch())
    except ValueError as e:
        result["error"] = next((code for pattern, code in ERRORS.items() if re.search(pattern, str(e))), str(e))
    write(f"{number:05d}.arrow", batch)
    (folder / f"{number:05d}.json").write_text(json.dumps(result))
