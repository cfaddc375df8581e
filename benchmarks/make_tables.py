"""Write the benchmark tables of the documentation from the results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, say
from tables import (
    bkernn,
    cluster,
    first_fit,
    gpu,
    gpu_all_rows,
    gpu_model,
    gpu_shares,
    hkrr,
    inference,
    inference_importance,
    kernel_ridge,
    portfolio,
    regfeal,
    selection,
    serving,
    site,
    threads,
    weighting,
)

TARGET = ROOT / "docs" / "_generated"
FILES = {  # one for each method, and one for all
    "bkernn_results.md": bkernn.SECTIONS,
    "hkrr_results.md": hkrr.SECTIONS,
    "kernel_ridge_results.md": kernel_ridge.SECTIONS,
    "selection_results.md": selection.SECTIONS,
    "weighting_results.md": weighting.SECTIONS,
    "regfeal_results.md": regfeal.SECTIONS,
    "threads_results.md": threads.SECTIONS,
    "first_fit_results.md": first_fit.SECTIONS,
    "portfolio_results.md": portfolio.SECTIONS,
    "serving_results.md": serving.SECTIONS,
    "inference_importance_results.md": inference_importance.SECTIONS,
    "gpu_results.md": gpu.SECTIONS,
    "gpu_model_results.md": gpu_model.SECTIONS,
    "gpu_shares_results.md": gpu_shares.SECTIONS,
    "gpu_all_rows_results.md": gpu_all_rows.SECTIONS,
    "inference_results.md": inference.SECTIONS,
    "cluster_results.md": cluster.SECTIONS,
}


def where(record: dict[str, Any]) -> str:
    """Say on what the numbers were made."""
    on = record["environment"]
    commit = (on["commit"] or "unknown")[:10] + (
        " with changes" if on["uncommitted_changes"] else ""
    )
    versions = ", ".join(f"{name} {v}" for name, v in on["versions"].items())
    device = f", {on['gpu']}" if on["gpu"] else ""
    exported = f"OMP_NUM_THREADS={on['OMP_NUM_THREADS'] or 'unset'}"
    return (
        f"*{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB{device}; backend "
        f"{on['backend']}; Python {on['python']}, {versions}; {exported}; commit {commit}; "
        f"{on['date']}.*"
    )


def criteria(record: dict[str, Any]) -> str:
    """List what was to hold, and whether it does."""
    words = {True: "holds", False: "**does not hold**", None: "not judged"}
    return "\n".join(f"- {c['criterion']}: {words[c['passed']]}" for c in record["criteria"])


def section(folder: Path, name: str, title: str, body: Callable[[dict[str, Any]], str]) -> str:
    """One section: title, settings, table, criteria, and where it was made."""
    if not (folder / f"{name}.json").exists():
        return f"## {title}\n\nNot measured yet."
    record = json.loads((folder / f"{name}.json").read_text())
    parts = [f"## {title}", f"Settings: {record['settings']}."]
    parts.append(body(record | {"results": folder}))  # where other records lie
    if record.get("criteria"):
        parts.append(criteria(record))
    return "\n\n".join([*parts, where(record)])


def main() -> None:
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    line.add_argument("--target", type=Path, default=TARGET, help="folder of the markdown files")
    line.add_argument("--allow-missing", action="store_true", help="leave out what is not there")
    args = line.parse_args()
    names = [name for sections in FILES.values() for name in sections]
    missing = [name for name in names if not (args.results / f"{name}.json").exists()]
    if missing and not args.allow_missing:
        files = ", ".join(f"{name}.json" for name in missing)
        sys.exit(f"no {files} in the results folder: run those scripts, or use --allow-missing")
    args.target.mkdir(parents=True, exist_ok=True)
    for file, sections in FILES.items():
        there = {name: entry for name, entry in sections.items() if name not in missing}
        text = [section(args.results, name, *entry) for name, entry in there.items()]
        (args.target / file).write_text("\n\n".join(text) + "\n")
        say(f"wrote {file} with {len(text)} of {len(sections)} tables")
    for file in site.PAGES:
        if text := site.page(file, args.results):
            (args.target / file).write_text(text)
            say(f"wrote {file}")


if __name__ == "__main__":
    main()
