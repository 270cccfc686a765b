"""What mkdocs does not do by itself: pages from outside of docs/, and the reference of all public names.

Pages say ``../CHANGELOG.md`` or ``../benchmarks/results/cpu.txt``, as a code host wants it. Here what they name becomes
a part of the site, under ``repository/``, and links are changed to lead there. The reference has a page for each group
of public names in ``nnet3py/__init__.py``, made from docstrings.
"""
from __future__ import annotations

import posixpath
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = "repository"
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_GROUP = re.compile(r"^    # (.+)\n((?:    \"\w+\": \"[\w.]+\",\n)+)", re.MULTILINE)
# Submodules with public names of their own, and the titles of their pages.
_PACKAGES = {"feat": "Features", "chain": "LF-MMI", "lattices": "Lattices", "ivectors": "I-vectors"}
_NEIGHBORS = {"scikit-learn": ["nnet3py.sklearn.Nnet3Classifier", "nnet3py.sklearn.Nnet3Regressor",
                                "nnet3py.sklearn.Nnet3Estimator"],
               "PyTorch's training": [f"nnet3py.torch.{name}" for name in (
                   "ChainLoss", "ChainSums", "ChainSystem", "supervision_from_alignments", "supervision_from_lattices",
                   "supervision_from_phones", "NaturalGradient", "orthonormal_constraint_")],
               "PyTorch's data sets": ["nnet3py.torch_data.ExampleDataset", "nnet3py.torch_data.tensors"]}


def public_groups() -> dict[str, list[str]]:
    """The public names of the package by what they are for, with their modules."""
    text = (ROOT / "nnet3py" / "__init__.py").read_text(encoding="utf-8")
    return {title[0].upper() + title[1:]: [f"{module}.{name}"
                                           for name, module in re.findall(r'"(\w+)": "([\w.]+)"', names)]
            for title, names in _GROUP.findall(text)}


def names_of_package(package: str) -> list[str]:
    """The public names of a folder of the package, with their modules."""
    return [f"{module}.{name}" for name, module in import_module(f"nnet3py.{package}")._PUBLIC.items()]


def reference_pages() -> dict[str, str]:
    """Markdown of the pages of the reference by their paths."""
    groups = [(title, "nnet3py", names) for title, names in public_groups().items()]
    groups += [(title, f"nnet3py.{package}", names_of_package(package)) for package, title in _PACKAGES.items()]
    groups += [(title, ".".join(names[0].split(".")[:2]), names) for title, names in _NEIGHBORS.items()]
    pages = {}
    for title, place, names in groups:
        path = "reference/" + re.sub(r"\W+", "-", title.lower()) + ".md"
        first = names[0].rpartition(".")[2]
        pages[path] = (f"# {title}\n\nAll of these are imported from `{place}`: `from {place} import {first}`.\n\n"
                       + "\n".join(f"::: {name}\n" for name in names))
    return pages


def outside_links(text: str, folder: str) -> list[str]:
    """Paths in the repository, outside of docs/, that a page in ``folder`` of the repository has links to."""
    paths = [posixpath.normpath(posixpath.join(folder, target))
             for _, target, _, _ in _LINK.findall(_without_code(text)) if ":" not in target]
    return [path for path in paths if not path.startswith(("docs/", "..")) and (ROOT / path).is_file()]


def on_config(config: Any) -> Any:
    """Add the generated pages to the navigation."""
    for section in config.nav:
        if "Reference" in section:
            section["Reference"].append({"Python": list(reference_pages())})
        if "How it works" in section:
            section["How it works"] += [f"{OUTSIDE}/nnet3py/ops/README.md", f"{OUTSIDE}/nnet3py/engine/README.md"]
            section["How it works"] += [f"{OUTSIDE}/CONTRIBUTING.md"]
        if "Reference" in section:
            section["Reference"] += [f"{OUTSIDE}/CHANGELOG.md", f"{OUTSIDE}/SECURITY.md"]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the reference, and all files outside of docs/ that pages lead to, directly or not."""
    for path, text in reference_pages().items():
        files.append(File.generated(config, path, content=text))
    waiting = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    added = set()
    while waiting:
        path, text = waiting.pop()
        for target in outside_links(text, posixpath.dirname(path)):
            if target not in added:
                added.add(target)
                content = (ROOT / target).read_bytes()
                file = File.generated(config, f"{OUTSIDE}/{target}", content=content)
                file.inclusion = InclusionLevel.NOT_IN_NAV
                files.append(file)
                if target.endswith(".md"):
                    waiting.append((target, content.decode()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to where files are in the site; what is not there (folders, programs) becomes plain text."""
    place = page.file.src_uri
    is_outside = place.startswith(f"{OUTSIDE}/")
    folder = posixpath.dirname(place.removeprefix(f"{OUTSIDE}/") if is_outside else f"docs/{place}")

    def changed(match: re.Match[str]) -> str:
        target, anchor = match[2], match[3] or ""
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        there = path.removeprefix("docs/") if path.startswith("docs/") else f"{OUTSIDE}/{path}"
        if files.get_file_from_path(there) is None:
            return match[0]
        return f"{match[1]}{posixpath.relpath(there, posixpath.dirname(place) or '.')}{anchor}{match[4]}"
    return _outside_code(markdown, lambda text: _LINK.sub(changed, text))


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def _outside_code(text: str, change: Any) -> str:
    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)
