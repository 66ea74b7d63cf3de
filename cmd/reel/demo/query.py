"""Asks a catalog server with the unmodified rerun-sdk, as an analyst would.

usage: query.py URL DATASET INDEX CONTENTS COLUMN,… [OUT.arrow]

Prints the first rows. With OUT.arrow, the whole answer is written there as an Arrow IPC file.
"""
import sys

import pyarrow as pa
from datafusion import col
from rerun.catalog import CatalogClient

url, dataset, index, contents, columns, *out = sys.argv[1:]
client = CatalogClient(url)
frame = client.get_dataset(name=dataset).filter_contents(contents).reader(index=index)
frame = frame.select(*(col(f'"{name}"') for name in columns.split(","))).sort(col(index))
table = pa.table(frame)
print(f"{table.num_rows} rows, the first of them:")
for row in table.slice(0, 5).to_pylist():
    print("  ", *row.values())
if out:
    with pa.OSFile(out[0], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
