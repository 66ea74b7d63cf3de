"""Reads recordings with the reference's reader: name, stores, chunks and rows of each."""

import sys
import warnings
from pathlib import Path

from rerun.chunk import RrdReader

for path in sys.argv[1:]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = RrdReader(path)
        entries = reader.recordings() + reader.blueprints()
        chunks = rows = 0
        for entry in entries:
            for chunk in reader.stream(store=entry):
                chunks += 1
                rows += chunk.num_rows
    print(Path(path).name, len(entries), chunks, rows)
