"""What a fit was asked for beside the defaults, as summaries and reports say it."""

import numpy as np
import pandas as pd
import pytest

import gpukfl

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"])
FRAME["day"] = np.arange(60) % 12
Y = FRAME["a"].to_numpy() + 0.1 * RNG.normal(size=60)
MONOTONE = {"monotone": {"a": 1, "b": -1}}
CASES = [
    ({}, {}),
    ({"loss": "quantile:0.9"}, {"loss": "quantile:0.9"}),
    ({"loss": "squared", "metric": "mae"}, {"metric": "MAE weighs the blend"}),
    ({"groups": "day"}, {"judged by": "new groups ('day')"}),
    ({"time": "day", "gap": 1}, {"judged by": "later rows ('day'), a gap (1)"}),
    ({"groups": FRAME["day"].to_numpy()}, {"judged by": "new groups"}),
    ({"validation": (FRAME, Y)}, {"judged by": "rows of validation, in place of folds"}),
    (MONOTONE, {"monotone": "a (rises), b (falls)"}),
]


@pytest.mark.parametrize(("given", "said"), CASES)
def test_summaries_say_what_differs_from_the_defaults(given, said):
    model = gpukfl.fit(FRAME, Y, members=["linear"], n_folds=2, **given)
    assert dict(model.describe().asked) == said
    lines = [" ".join(line.split()) for line in model.summary().splitlines()]
    for topic in ("loss", "metric", "judged by", "monotone"):
        own = [line for line in lines if line.startswith(topic)]
        assert own == ([f"{topic} {said[topic]}"] if topic in said else [])


def test_reports_and_single_methods_say_it(tmp_path):
    model = gpukfl.fit(FRAME, Y, method="hkrr", criterion="evidence", loss="absolute")
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "; loss: absolute" in page.partition("</header>")[0]
