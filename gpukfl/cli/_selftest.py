"""``gpukfl selftest``: whether the GPU computes right, and how fast."""

from __future__ import annotations

import argparse
import json

from gpukfl._streams import tell
from gpukfl.cli._files import check_writable, try_to_write, write_whole


def selftest(options: argparse.Namespace) -> int:
    """Give 0 where all is right, 1 where something is wrong, 2 without a GPU to test."""
    from gpukfl.selftest import report

    if options.samples < 0:
        msg = f"expected --samples of at least 0, got {options.samples}"
        raise ValueError(msg)
    check_writable("--out", options.out, source="")
    found = report(full=options.full, n_timed=options.samples)
    text = json.dumps(found, indent=1)
    page = f"{text}\n".encode()
    failed, told = try_to_write(
        "report", options.out, lambda path: write_whole(path, lambda file: file.write(page))
    )
    tell(text)
    if failed:
        raise OSError(told)
    return {True: 0, False: 1, None: 2}[found["right"]]
