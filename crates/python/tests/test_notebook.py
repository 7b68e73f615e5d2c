"""The notebook that documents the package."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs() -> None:
    root = Path(__file__).parents[3]
    notebook = nbformat.read(root / "crates/python/notebooks/tour.ipynb", as_version=4)
    # Jupyter starts it in its directory; others in the root.
    for directory in (root / "crates/python/notebooks", root):
        resources = {"metadata": {"path": str(directory)}}
        nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
        shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        assert any("text/html" in output.get("data", {}) for output in shown)
        assert any("SIGSEGV" in output.get("text", "") for output in shown)
