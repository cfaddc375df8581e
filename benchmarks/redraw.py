"""Draw pictures again from the results beside them, without running a benchmark.

``python benchmarks/redraw.py`` draws all, ``python benchmarks/redraw.py bench_fits`` one.
"""

from __future__ import annotations

import json
from importlib import import_module

from common import RESULTS, parser

OF_ANOTHER_NAME = {
    "bench_drawn_large": "bench_other_tables",
    "bench_drawn_tables": "bench_other_tables",
    "bench_portfolio_sets": "bench_portfolio",
}


def main() -> None:
    line = parser(__doc__)
    line.add_argument("names", nargs="*", help="of pictures (default: all in benchmarks/results)")
    args = line.parse_args()
    for name in args.names or sorted(path.stem for path in RESULTS.glob("*.png")):
        result = json.loads((RESULTS / f"{name}.json").read_text())
        import_module(OF_ANOTHER_NAME.get(name, name)).draw(args, result)


if __name__ == "__main__":
    main()
