"""Writes the recordings that benchmarks run on, with the real SDK.

usage: inputs.py mixed OUT MEGABYTES      one recording of many entities and kinds, in a few hundred chunks
       inputs.py sparse OUT ROWS          20 entities that never log at the same time, ROWS rows in all
       inputs.py shared OUT ROWS          20 entities that always log together, ROWS rows each
       inputs.py segments DIR COUNT ROWS  COUNT recordings of five entities with ROWS rows each
"""
import os
import sys

import numpy as np
import rerun as rr

rng = np.random.default_rng(1)


def recording(path, name):
    rec = rr.RecordingStream("bench", recording_id=name, send_properties=False)
    rec.save(path)
    return rec


def times(first, n, step=1):
    frame = np.arange(first, first + n * step, step)
    return [
        rr.TimeColumn("frame", sequence=frame),
        rr.TimeColumn("time", timestamp=1.75e9 + frame * 0.001),
    ]


def scalars(rec, entity, first, n, step=1):
    rec.send_columns(entity, indexes=times(first, n, step), columns=rr.Scalars.columns(scalars=rng.normal(size=n)))


def mixed(path, megabytes):
    """Per unit of about 50 MB: 120 chunks of scalars, transforms, clouds and images."""
    rec = recording(path, "mixed")
    for unit in range(max(1, round(megabytes / 50))):
        for k in range(20):  # 20 × 4 chunks of 2,000 rows
            for part in range(4):
                scalars(rec, f"/signals/s{k:02}", unit * 8000 + part * 2000, 2000)
        for k in range(4):  # 4 × 5 chunks of 2,000 rows
            for part in range(5):
                n, first = 2000, unit * 10000 + part * 2000
                rec.send_columns(
                    f"/robot/joint{k}",
                    indexes=times(first, n),
                    columns=rr.Transform3D.columns(
                        translation=rng.normal(size=(n, 3)).astype(np.float32),
                        quaternion=rng.normal(size=(n, 4)).astype(np.float32),
                    ),
                )
        for part in range(10):  # 10 chunks of 10 clouds of 20,000 points
            n, points = 10, 20_000
            cloud = rng.normal(size=(n * points, 3)).astype(np.float32)
            color = rng.integers(0, 2**32, n * points, dtype=np.uint32)
            rec.send_columns(
                "/lidar/points",
                indexes=times(unit * 1000 + part * 100, n, 10),
                columns=rr.Points3D.columns(positions=cloud, colors=color).partition([points] * n),
            )
        for part in range(10):  # 10 chunks of 20 images of 60 kB
            n = 20
            blobs = [rng.bytes(60_000) for _ in range(n)]
            rec.send_columns(
                "/camera/image",
                indexes=times(unit * 2000 + part * 200, n, 10),
                columns=rr.EncodedImage.columns(blob=blobs, media_type=["image/jpeg"] * n),
            )
    rec.flush()


def sparse(path, rows):
    rec = recording(path, "sparse")
    n = rows // 20
    for k in range(20):
        for first in range(0, n, 5000):
            scalars(rec, f"/signals/s{k:02}", first * 20 + k, min(5000, n - first), 20)
    rec.flush()


def shared(path, rows):
    rec = recording(path, "shared")
    for k in range(20):
        for first in range(0, rows, 5000):
            scalars(rec, f"/signals/s{k:02}", first, min(5000, rows - first))
    rec.flush()


def segments(folder, count, rows):
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        rec = recording(os.path.join(folder, f"segment{i:04}.rrd"), f"segment{i:04}")
        for k in range(5):
            scalars(rec, f"/signals/s{k}", 0, rows)
        rec.flush()


if __name__ == "__main__":
    kind, path, *numbers = sys.argv[1:]
    globals()[kind](path, *map(int, numbers))
