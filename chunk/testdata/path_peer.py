"""Parses random entity paths with the peer: python path_peer.py SEED COUNT. Prints a JSON list of
[text, canonical path, parts, canonical path of those parts]."""
import json
import random
import sys
import warnings

import rerun as rr
from rerun.chunk import Chunk

warnings.simplefilter("ignore")
rnd = random.Random(int(sys.argv[1]))
ATOMS = ["a", "B", "foo", "/", "/", "//", "\\", "\\\\", "\\/", " ", "\\ ", "é", "漢", "_", "__x", "-", ".", "..", ":", "#", "[0]", "\\n", "\\t", "\\u{41}",
         "\\u{1F600}", "\\u{", "\\u{}", "\\u{zz}", "\\u{110000}", "\\u{0000041}", "\\uX", "\\q", "\n", "\t", "\r", "\0", "\x7f", "\U0001f600", "\u0301", "½", "!", "\\!", "1", "\u00a0", "\\é"]
out = []
for _ in range(int(sys.argv[2])):
    text = "".join(rnd.choice(ATOMS) for _ in range(rnd.randint(0, 7)))
    parts = ["".join(rnd.choice(ATOMS) for _ in range(rnd.randint(0, 3))) for _ in range(rnd.randint(0, 3))]
    chunk = Chunk.from_columns(text, [], rr.Scalars.columns(scalars=[1.0]))
    out.append([text, chunk.entity_path, parts, rr.new_entity_path(parts)])
print(json.dumps(out))
