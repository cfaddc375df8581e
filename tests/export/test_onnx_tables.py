"""ONNX files of tables: an input a column, and codes and predictions as the package's."""

import numpy as np
import pandas as pd
import pytest
from served_tables import FRAME, OTHERS, ROUNDING, WITHOUT, blend, said, single

import gpukfl
from gpukfl.tables import Table
from gpukfl.tables._dates import PERIODS, date_part, days_since, parse_dates

ndonnx = pytest.importorskip("ndonnx")
onnxruntime = pytest.importorskip("onnxruntime")
tables = pytest.importorskip("gpukfl.export._onnx")

KNOWN = tuple(WITHOUT.items())


def feeds(table, rows):
    """Columns as the inputs of a file take them."""
    found = {}
    for column in table.columns:
        values = rows[column.name].tolist() if column.is_used else []
        if column.kind in ("category", "ordered"):
            found[column.name] = np.array(["" if pd.isna(v) else v for v in values], dtype=object)
        elif column.kind == "date":
            found[column.name] = moments(values).astype(np.int64)
        elif column.is_used:
            found[column.name] = np.array([number(value) for value in values])
    return found


def moments(values):
    if any(isinstance(value, str) for value in values):
        return parse_dates(np.array([value or "NA" for value in values], dtype=object), True)
    return np.array([None if pd.isna(value) else value for value in values], dtype="M8[us]")


def number(value):
    if value is None or value is pd.NaT:
        return np.nan
    if isinstance(value, pd.Timedelta):
        return value.total_seconds()
    return float(value.removesuffix(" kg")) if isinstance(value, str) else float(value)


def run(graph, inputs):
    session = onnxruntime.InferenceSession(graph)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize(
    "members", [pytest.param(["evidence_quantile"], marks=pytest.mark.slow), ["trees", "linear"]]
)
def test_parts_of_dates_are_predicted_as_by_the_package(tmp_path, members):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(700, size=120), "D")
    frame = pd.DataFrame({"sold": days, "area": rng.uniform(50, 250, 120)})
    price = frame["area"] + 30 * np.sin(frame["sold"].dt.month)
    model = gpukfl.fit(frame[:80], price[:80], members=members, n_folds=2, progress=False)
    model.to_onnx(tmp_path / "m.onnx")
    new = frame[80:]
    inputs = {
        "sold": new["sold"].to_numpy("M8[us]").astype(np.int64),
        "area": new["area"].to_numpy(),
    }
    (found,) = run(tmp_path / "m.onnx", inputs).values()
    np.testing.assert_allclose(found, model.predict(new), rtol=0, atol=1e-10 * np.std(price))


@pytest.fixture(scope="module")
def reader():
    return single("one target", columns=KNOWN).reader


@pytest.fixture(scope="module")
def graph(reader):
    inputs, codes = tables.make_inputs(reader.table, ndonnx)
    outputs = {"codes": codes, "encoded": reader.encoding.transform(codes)}
    return ndonnx.build(inputs, outputs).SerializeToString()


@pytest.mark.parametrize("rows", [FRAME, OTHERS], ids=["of the fit", "others"])
def test_codes_and_encodings_agree(reader, graph, rows):
    found = run(graph, feeds(reader.table, rows))
    np.testing.assert_allclose(found["codes"], reader.table.codes(rows), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["encoded"], reader(rows), rtol=0, atol=1e-12)


def test_inputs_are_the_columns_that_are_used(reader, graph):
    inputs = {one.name: one.type for one in onnxruntime.InferenceSession(graph).get_inputs()}
    kinds = {"category": "string", "ordered": "string", "date": "int64"}
    used = [column for column in reader.table.columns if column.is_used]
    assert inputs == {c.name: f"tensor({kinds.get(c.kind, 'double')})" for c in used}
    assert "note" not in inputs


def check(found, path):
    found.to_onnx(path)
    encodings = getattr(found.estimator, "encodings_", None)
    table = found.reader.table if encodings is None else encodings.table
    for rows in (FRAME, OTHERS):
        got = run(str(path), feeds(table, rows))
        told = got["probabilities" if found.task == "classification" else "prediction"]
        np.testing.assert_allclose(told, said(found, rows), rtol=0, atol=ROUNDING)
        if found.task == "classification":
            assert got["label"].tolist() == found.predict(rows).tolist()


def test_a_method_of_a_table_agrees(tmp_path):
    check(single("one target", columns=KNOWN), tmp_path / "model.onnx")


@pytest.mark.slow
def test_gaps_that_are_told_agree(tmp_path):
    check(single("one target", "model", KNOWN), tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["two targets", "three classes"])
def test_blends_of_a_table_agree(target, tmp_path):
    check(blend(target, columns=KNOWN), tmp_path / "model.onnx")


def test_parts_of_dates_are_those_of_numpy():
    days = np.random.default_rng(0).integers(-400_000, 400_000, 500)
    times = (days * 86_400_000_003_457).astype("M8[us]")[:, None].ravel()
    edges = np.array(["1900-02-28T23:59:59", "1900-03-01", "2000-02-29", "2100-12-31"], "M8[us]")
    times = np.concatenate([times, edges, np.array(["NaT"], "M8[us]")])
    table = Table.learn(pd.DataFrame({"at": times}), columns={"at": "date"})
    assert table.columns[0].parts == ("year", *PERIODS)
    inputs, codes = tables.make_inputs(table, ndonnx)
    found = run(
        ndonnx.build(inputs, {"codes": codes}).SerializeToString(), {"at": times.astype(np.int64)}
    )["codes"]
    np.testing.assert_allclose(found[:, 0], days_since(times, table.columns[0].start), rtol=1e-15)
    for k, part in enumerate(("year", *PERIODS)):
        np.testing.assert_allclose(found[:, 1 + k], date_part(times, part), rtol=1e-15)


# ---------------------------------------------------------------------- bad input


def test_columns_that_files_cannot_read_are_named(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(
        TypeError, match=r"got text in 'note': to drop it, fit with columns=\{'note': 'ident"
    ):
        single("one target").to_onnx(path)
    frame = pd.DataFrame({"label": FRAME["width"], "of": FRAME["colour"]})
    with pytest.raises(ValueError, match="no column with the name of an output, got 'label'"):
        tables.make_inputs(Table.learn(frame), ndonnx)
    with pytest.raises(ValueError, match="a name for every input of an ONNX graph, got a column"):
        tables.make_inputs(Table.learn(frame.rename(columns={"label": ""})), ndonnx)
    odd = pd.DataFrame({"code": [0.5, 1.5] * 40})
    with pytest.raises(TypeError, match="expected integer codes for an ONNX file"):
        tables.make_inputs(Table.learn(odd, columns={"code": "code"}), ndonnx)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore")
def test_an_estimator_of_a_table_is_written_by_itself(tmp_path):
    frame = FRAME[["width", "colour"]]
    members = ["linear"]
    found = gpukfl.AutoRegressor(members=members, n_folds=2).fit(frame, FRAME["width"])
    found.to_onnx(tmp_path / "model.onnx")
    got = run(str(tmp_path / "model.onnx"), feeds(found.encodings_.table, frame))["prediction"]
    np.testing.assert_allclose(got, found.predict(frame), rtol=0, atol=1e-10)
