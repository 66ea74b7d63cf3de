"""Logs to a running server by the real SDK and reads it back: live.py URL."""
import sys
import time

import numpy as np
import pyarrow as pa
import rerun as rr
import rerun.blueprint as rrb

url = sys.argv[1]
rec = rr.RecordingStream("live app", recording_id="run 1")
rec.connect_grpc(url + "/proxy")
for i in range(50):
    rec.set_time("frame", sequence=i)
    rec.log("/arm/joint", rr.Scalars(i * 0.5))
rec.log("/note", rr.TextDocument("hello"), static=True)
rec.send_property("episode", rr.AnyValues(task="pick"))
rec.flush()

client = rr.catalog.CatalogClient(url)
dataset = client.get_dataset(name="live app")
assert dataset.segment_ids() == ["run 1"], dataset.segment_ids()
rows = pa.table(dataset.reader(index="frame")).sort_by("frame").to_pylist()
assert [r["frame"] for r in rows] == list(range(50)), rows
assert [r["/arm/joint:Scalars:scalars"] for r in rows] == [[i * 0.5] for i in range(50)]
assert rows[0]["/note:TextDocument:text"] == ["hello"]
segment = pa.table(dataset.segment_table()).to_pylist()[0]
assert segment["property:episode:task"] == ["pick"] and segment["frame:end"] == 49, segment

# More of the same recording, by columns, and a new entity with a timeline of its own.
rec.send_columns("/arm/joint", indexes=[rr.TimeColumn("frame", sequence=np.arange(50, 60))], columns=rr.Scalars.columns(scalars=np.arange(10.0)))
rec.send_columns("/cam", indexes=[rr.TimeColumn("wall", timestamp=[1.7e9])], columns=rr.Points3D.columns(positions=[[1.0, 2.0, 3.0]]))
rec.flush()
assert pa.table(dataset.reader(index="frame")).num_rows == 60
assert pa.table(dataset.reader(index="wall")).num_rows == 1

rec.send_blueprint(rrb.Blueprint(rrb.TimeSeriesView(origin="/")))
rec.flush()
for _ in range(50):
    if client.get_dataset(name="live app").default_blueprint():
        break
    time.sleep(0.1)
assert client.get_dataset(name="live app").default_blueprint() == dataset.blueprints()[0]

# A second stream of the same recording after the first has ended.
rec.disconnect()
again = rr.RecordingStream("live app", recording_id="run 1", send_properties=False)
again.connect_grpc(url + "/proxy")
again.set_time("frame", sequence=1000)
again.log("/arm/joint", rr.Scalars(-1.0))
again.flush()
again.disconnect()
for _ in range(50):
    if pa.table(dataset.reader(index="frame")).num_rows == 61:
        break
    time.sleep(0.1)
assert pa.table(dataset.reader(index="frame")).num_rows == 61
print(segment["rerun_storage_urls"][0])
