"""What scikit-learn is told of the output of transformers changes no model."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from brief import hkrr

import gpukfl

N = 80
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "size": np.where(np.arange(N) % 9, RNG.normal(size=N), np.nan),
        "town": RNG.choice(list("uvw"), N),
        "street": [f"{k % 7} some road {k}" for k in range(N)],
    }
)
Y = TABLE["size"].fillna(0.0) ** 2 + (TABLE["town"] == "u")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("library", "method"),
    [("pandas", "auto"), pytest.param("polars", "hkrr", marks=pytest.mark.slow)],
)
def test_models_of_tables_are_the_same(tmp_path, library, method):
    pytest.importorskip(library)
    options = {"members": ["linear", "laplace"], "n_folds": 2}
    if method == "hkrr":
        options = hkrr(n_components=2, n_starts=1, max_iter=3, ridge=1e-3)
    expected = gpukfl.fit(TABLE, Y, method=method, random_state=0, **options).predict(TABLE)
    with sklearn.config_context(transform_output=library):
        found = gpukfl.fit(TABLE, Y, method=method, random_state=0, **options)
        found.save(tmp_path / "model")
        found.report(tmp_path / "report.html", held_out=(TABLE, Y), fitted_to=(TABLE, Y))
        assert found.inference(TABLE, Y).summary()
    np.testing.assert_array_equal(found.predict(TABLE), expected)
    np.testing.assert_array_equal(gpukfl.load(tmp_path / "model").predict(TABLE), expected)
