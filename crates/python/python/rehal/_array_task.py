"""A job of an array of Slurm: performs the task whose number it has."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path


def main(path: Path, index: int) -> None:
    """The file has what performs tasks, and the tasks; the result is written beside it."""
    # The user's own sweep wrote the file.
    perform, tasks = pickle.loads(path.read_bytes())
    task = tasks[index]
    result = path.with_name(f"{task.id}.json")
    part = result.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(perform(task)))
    os.replace(part, result)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["SLURM_ARRAY_TASK_ID"]))
