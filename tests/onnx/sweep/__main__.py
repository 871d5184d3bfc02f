"""`python -m tests.onnx.sweep [TYPE…] [--ours] [--theirs]`: export every model type, print the table and the counts."""

from __future__ import annotations

import sys

from tests.onnx.sweep.run import main

sys.exit(main(sys.argv[1:]))
