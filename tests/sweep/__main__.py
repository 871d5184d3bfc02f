"""`python -m tests.sweep [TYPE…]`: every model type through every operation; prints the table and the counts."""

from __future__ import annotations

import sys

from tests.sweep.run import main

sys.exit(main(sys.argv[1:]))
