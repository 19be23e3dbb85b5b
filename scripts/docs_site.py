"""The site of docs/: `python scripts/docs_site.py site` builds it, as `make docs` does.

Pages are gathered in a temporary folder: those of docs/, the reference made from the code, and
ARCHITECTURE.md, CONTRIBUTING.md and CHANGELOG.md, which lie beside docs/. Links between them are
written for a reader of the repository and changed here. Sphinx then builds the folder; any warning,
a broken link among them, is an error. Nothing is fetched, neither now nor by a reader's browser.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from docs_reference import pages

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",  # has the start page in its place
}
# In the order of a reader: heading -> page and the name that the navigation gives it.
NAVIGATION: dict[str, dict[str, str]] = {
    "Concepts": {
        "method": "The method",
        "runs": "Runs, chains and records",
        "trust": "What may come from strangers",
        "kitchen": "The kitchen",
        "pilot": "The pilot, a stand-in",
    },
    "How to": {
        "collecting": "Collect demonstrations",
        "cluster": "Collect on a cluster",
        "forks": "Go on from a saved state",
        "report": "Read the report",
        "studio": "Look in the studio",
        "dataset": "Certify and export datasets",
        "students": "Train and evaluate students",
        "rigs": "Use a robot in a room",
        "first-day": "First day with a real arm",
        "franka": "Use a Franka",
        "franky": "Use a Franka behind franky",
        "yam": "Use two YAM arms",
        "your-own": "Use your own world, model, metric",
        "adding-a-task": "Add a task to the kitchen",
        "robosuite": "Use robosuite",
        "robocasa": "Use RoboCasa",
    },
    "Reference": {
        "commands": "All commands in a table",
        "cli": "The command line: help, completion",
        "reference/cli": "Every option of every command",
        "python": "From Python",
        "reference/python": "Python: the flat exports",
        "architecture": "Architecture",
    },
    "Results": {
        "results": "Results of the stand-ins",
        "counterfactual": "Plans executed whole",
        "method-worth": "What the method is worth",
        "calibration": "The calibrator on synthetic data",
        "scale": "Memory, kills and lies at scale",
        "paper-numbers": "The paper's numbers, recomputed",
        "deviations": "Departures from the paper",
    },
    "Project": {"contributing": "Contributing", "changelog": "Changelog"},
}
SETTINGS = {
    "project": "CAPEX",
    "html_title": "CAPEX",
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 4,
    "myst_url_schemes": ["http", "https"],
    "html_theme": "furo",
    "html_favicon": "favicon.svg",
    "html_static_path": ["site.css"],
    "html_css_files": ["site.css"],
    "html_show_copyright": False,
    "html_show_sphinx": False,
    "html_copy_source": False,
    "html_show_search_summary": False,  # read by the browser page by page, which needs a server
    "highlight_language": "none",
    "pygments_style": "friendly",
}
CSS = """/* Tables need room; drawings have dark lines on white. */
.content { width: 52em; }
article img { border-radius: 4px; background: #fff; }
table.docutils { font-size: 0.85em; }
table.docutils th { text-align: left; }
table.docutils code { white-space: normal; overflow-wrap: normal; }
.left-details { display: none; }
"""


def relink(text: str) -> str:
    """Links between docs/ and the files beside it, as the site has them."""

    def replaced(match: re.Match[str]) -> str:
        path = re.sub(r"^(\.\./|docs/)", "", match[1])
        return f"]({BESIDE.get(path, path)}"

    return re.sub(r"\]\(((?:\.\./|docs/)?[\w./-]+\.md)", replaced, text)


def navigation() -> str:
    """The tables of contents that the start page hides and every page shows."""
    groups = []
    for heading, entries in NAVIGATION.items():
        listed = "\n".join(f"{name} <{page}>" for page, name in entries.items())
        groups.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{listed}\n```\n")
    return "\n".join(groups)


def gather(folder: Path) -> None:
    """Write the source of the whole site into a folder."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    for old, new in BESIDE.items():
        if not (folder / new).exists():
            shutil.copy(ROOT / old, folder / new)
    for page in folder.glob("*.md"):
        page.write_text(relink(page.read_text("utf-8")), encoding="utf-8")
    with (folder / "index.md").open("a", encoding="utf-8") as start:
        start.write("\n" + navigation())
    for path, text in pages().items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "site.css").write_text(CSS, encoding="utf-8")


def build(out: Path) -> int:
    """The site in a folder; not 0 when anything in it is wrong."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    with tempfile.TemporaryDirectory() as temporary:
        source, trees = Path(temporary) / "source", Path(temporary) / "trees"
        gather(source)
        shutil.rmtree(out, ignore_errors=True)
        with patch_docutils(None), docutils_namespace():
            site = Sphinx(
                source,
                None,
                out,
                trees,
                "html",
                confoverrides=SETTINGS,
                status=None,
                warningiserror=True,
            )
            site.build(force_all=True)
            return site.statuscode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} DIR")
    if status := build(Path(sys.argv[1])):
        sys.exit(status)
    print(f"{Path(sys.argv[1]) / 'index.html'}: opens from disk, without a server or a network")
