"""`python -m tests.fault_matrix.strike ROW FOLDER FILE`: one row in a process of its own.

So a row that hangs or breaks takes no other with it; what it saw goes to FILE.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.fault_matrix.places import PLACES

if __name__ == "__main__":
    name, folder, result = sys.argv[1:]
    row = next(row for place in PLACES for row in place.rows if row.name == name)
    Path(result).write_text(json.dumps(asdict(row.strike(Path(folder)))))
