"""What the peer says about the vocabulary: python peer.py FOLDER.

Writes types.json (Arrow types of components) and NAME.arrow (rows of some archetypes).
"""
import inspect
import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import rerun as rr
import rerun.archetypes as ra
import rerun.blueprint.components
import rerun.components
from pyarrow import ipc
from rerun.chunk import Chunk

folder = pathlib.Path(sys.argv[1])
types = {}
for module, prefix in ((rerun.components, "rerun.components."), (rerun.blueprint.components, "rerun.blueprint.components.")):
    for name, cls in inspect.getmembers(module, inspect.isclass):
        if name.endswith("Batch") and hasattr(cls, "_ARROW_DATATYPE"):
            types[prefix + name.removesuffix("Batch")] = str(cls._ARROW_DATATYPE)
(folder / "types.json").write_text(json.dumps(types))


def rows(name, columns):
    batch = Chunk.from_columns("/e", [], columns).to_record_batch()
    with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as f, ipc.new_stream(f, batch.schema) as w:
        w.write_batch(batch)


def row(archetype):
    return [rr.ComponentColumn(b.component_descriptor(), b) for b in archetype.as_component_batches()]


rows("points", rr.Points3D.columns(positions=[[1, 2, 3], [4, 5, 6], [7, 8, 9]], colors=np.array([0xFF0000FF, 0x00FF00FF, 1], np.uint32), labels=["a", "b", "c"]).partition([1, 2]))
rows("scalars", rr.Scalars.columns(scalars=[1.0, 2.5, -1.0]))
rows("text", rr.TextLog.columns(text=["x", "é"], level=["INFO", "WARN"]))
rows("boxes", rr.Boxes3D.columns(half_sizes=[[1, 2, 3]], rotation_axis_angles=[rr.RotationAxisAngle([0, 0, 1], radians=0.5)], fill_mode=[1]))
rows("strips", rr.LineStrips3D.columns(strips=[[[0, 0, 0], [1, 1, 1]], [[2, 2, 2]]]).partition([2]))
rows("blobs", rr.EncodedImage.columns(blob=[b"abc", b""], media_type=["image/png", "image/jpeg"]))
rows("tensor", ra.Tensor.columns(data=[rr.TensorData(array=np.array([[1, 2, 3], [4, 5, 6]], np.float32), dim_names=["y", "x"])]))
rows("annotations", row(rr.AnnotationContext([
    rr.ClassDescription(info=rr.AnnotationInfo(id=1, label="car", color=[255, 0, 0]), keypoint_annotations=[rr.AnnotationInfo(id=0, label="k")], keypoint_connections=[(0, 1)]),
    rr.ClassDescription(info=rr.AnnotationInfo(id=2)),
])))
rows("edges", rr.GraphEdges.columns(edges=[("a", "b"), ("b", "c")]).partition([2]))
