"""Asks a catalog server with the unmodified rerun-sdk, as an analyst would.

usage: query.py URL DATASET INDEX CONTENTS [OUT.arrow]

Prints the first rows. With OUT.arrow, the whole answer is written there as an Arrow IPC file.
"""
import sys

import pyarrow as pa
from rerun.catalog import CatalogClient

url, dataset, index, contents, *out = sys.argv[1:]
client = CatalogClient(url)
frame = client.get_dataset(name=dataset).filter_contents(contents).reader(index=index)
table = pa.table(frame)
print(f"{table.num_rows} rows of {', '.join(table.column_names)}")
for row in table.slice(0, 3).to_pylist():
    print("  ", {name: value for name, value in row.items() if value is not None})
if out:
    with pa.OSFile(out[0], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
