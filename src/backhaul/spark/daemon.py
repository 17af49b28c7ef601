"""How does a Python process of Spark begin with everything loaded that our tasks import?

Spark forks its Python workers from one daemon. This is that daemon, with two differences. Before its
first fork it imports what a lane would: half a second of processor time that each worker would spend
anew. And it takes pyspark from where it is installed: Spark puts a zip of the same modules before it,
out of which none is compiled and whose list of files every single task reads again, 0.1 s each.

Only for executors that are children of this very process, and so have what it has (see `session`).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

# Named, not imported: this room knows nothing of the others.
LOADED_BEFORE_THE_FORK = ("backhaul.extract.lane",)


def main() -> None:
    _forget_zips(Path(os.environ["SPARK_HOME"]) / "python" / "lib")
    from pyspark.daemon import manager

    for name in LOADED_BEFORE_THE_FORK:
        importlib.import_module(name)
    # A worker collects garbage after each of its tasks; what stays for good need not be looked at.
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


def _forget_zips(folder: Path) -> None:
    for known in (*sys.path, *sys.path_importer_cache):
        if Path(known).parent == folder:
            sys.path_importer_cache.pop(known, None)
    sys.path[:] = [known for known in sys.path if Path(known).parent != folder]


if __name__ == "__main__":
    main()
