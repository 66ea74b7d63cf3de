"""Runs one job of the peer in this process and prints what it took, start-up and imports left out.

usage: peer.py stream FILE                      decode all chunks of a recording
       peer.py query FILE INDEX [fill]          dataframe query of a recording, all rows
       peer.py scan URL DATASET INDEX           the same over a catalog server, by its client

Output: JSON with seconds of wall time and of processor time, rows, and peak memory in bytes.
"""
import json
import resource
import sys
import time

import pyarrow  # noqa: F401  its import is not part of the job
import rerun as rr
import rerun.chunk as rc


def stream(path):
    return sum(c.num_rows for c in rc.RrdReader(path).stream())


def count(frame):
    return sum(b.to_pyarrow().num_rows for b in frame.execute_stream())


def query(path, index, fill=""):
    store = rc.ChunkStore.from_chunks(rc.RrdReader(path).stream().to_chunks())
    return count(store.reader(index, fill_latest_at=bool(fill)))


def scan(url, dataset, index):
    client = rr.catalog.CatalogClient(url)
    return count(client.get_dataset(name=dataset).reader(index))


job, *args = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF)
started = time.monotonic()
rows = globals()[job](*args)
wall = time.monotonic() - started
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"wall": wall, "cpu": cpu, "rows": rows, "rss": after.ru_maxrss * 1024}))
