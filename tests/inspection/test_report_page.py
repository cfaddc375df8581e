"""A report is a whole page that is safe to open, whatever the columns are called."""

import html.parser
import os
import re
import stat
import sys
import unicodedata

import numpy as np
import pytest

from gpukfl.inspection import (
    ColumnFacts,
    Compared,
    Comparison,
    Curves,
    DataFacts,
    Description,
    Directions,
    Importances,
    Leaderboard,
    Panel,
    Predictions,
    Reliability,
    ResidualPlot,
    Told,
    Tuning,
    card,
    summarize,
    write_report,
)
from gpukfl.inspection._report import dark_color
from gpukfl.inspection._style import BAR, BLUE, PALE

pytest.importorskip("matplotlib")
RNG = np.random.default_rng(0)
ODD = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "&amp; ${x} {0} %s",
    "😀 price 長い名前",
    "المساحة",
    "tab\tand\nnew\x00line\x1b[31m",
    "</style></svg><b>",
    "style=fill:#31688e #31688e",
    "x" * 300,
)
VOID = {"meta", "br", "img"}


class Page(html.parser.HTMLParser):
    """The elements of a page, which must be closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.kinds, self.attributes, self.ids, self.said = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.kinds.append(tag)
        self.attributes += attrs
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


def held_out(n=60, t=1):
    truth = RNG.standard_normal((n, t))
    predicted = truth + 0.1 * RNG.standard_normal((n, t))
    return truth, predicted, np.stack([predicted - 0.2, predicted + 0.2], axis=2)


def described(names, **more):
    d = len(names)
    truth, predicted, ends = held_out()
    steps = np.linspace(-1.0, 1.0, 20)
    given = {
        "name": "Mine",
        "target": names[0],
        "task": "regression",
        "n_samples": 60,
        "n_features": d,
        "facts": {"fact": names[0]},
        "warnings": (f"Something is wrong with {names[1]}.",),
        "call": f"gpukfl.fit(X, {names[0]!r})",
        "panels": (
            Importances(names, np.arange(d, 0.0, -1.0) / d, "errors", errors=np.full(d, 0.1)),
            Directions(names, np.eye(2, d), np.ones(d)),
            Curves(names[:2], (steps,) * 2, (np.sin(steps)[:, None],) * 2, (names[0],)),
            Predictions(truth, predicted, (names[0],), ends, 0.9),
            ResidualPlot(truth, predicted, (names[0],)),
            Leaderboard(
                (names[0], "blend"), np.array([0.5, 0.4]), np.full(2, 0.1), np.array([0.3, 1.0])
            ),
        ),
        "comparison": Comparison((Compared("the mean", 0.0), Compared(names[1], 0.5, 0.1)), "R²"),
        "data": DataFacts(tuple(ColumnFacts(name, "numeric", 0.2, name) for name in names), d),
        "tuning": Tuning(
            (
                {
                    "member": names[0],
                    "score": 0.4,
                    "weight": 0.3,
                    "note": names[1],
                    "chosen": False,
                },
                {"member": "blend", "score": 0.5, "weight": 1.0, "note": "", "chosen": True},
            ),
            along="member",
        ),
    }
    return Description(**given | more)


def written(told, path, **scores):
    write_report(told, path, scores=scores)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return written(described(ODD), tmp_path_factory.mktemp("report") / "odd.html", **{ODD[0]: 0.5})


def test_names_are_text_and_nothing_else(odd):
    page = Page(odd)
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.kinds)
    assert page.kinds.count("style") == page.kinds.count("title") == 1
    assert not [key for key, _ in page.attributes if key.startswith("on")]
    said = "".join(page.said)
    for name in ODD[:5]:
        assert name in said
    assert not [c for c in odd if unicodedata.category(c) == "Cc" and c != "\n"]
    assert ("dir", "auto") in page.attributes


def test_a_page_needs_nothing_from_elsewhere(odd):
    assert "http" not in odd
    for key, value in Page(odd).attributes:
        if key in ("src", "href", "xlink:href"):
            assert value.startswith(("#", "data:"))
    assert not re.search(r"url\((?!#)", odd)


def test_pictures_are_described_and_their_names_differ(odd):
    page = Page(odd)
    assert page.kinds.count("svg") == 6
    labels = [value for key, value in page.attributes if key == "aria-label"]
    assert len(labels) == 6
    assert any(label.startswith("importances: <script>") for label in labels)
    assert any(" % (target 90 %)" in label for label in labels)
    assert len(page.ids) == len(set(page.ids))
    used = re.findall(r"url\(#([^)]*)\)", odd)
    used += [
        value[1:] for key, value in page.attributes if key.endswith("href") and value[0] == "#"
    ]
    assert used
    assert set(used) <= set(page.ids)


def luminance(rgb):
    """Relative luminance of WCAG 2.2."""
    shares = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb]
    return float(np.dot([0.2126, 0.7152, 0.0722], shares))


@pytest.mark.parametrize("dark", [False, True])
def test_errors_and_bars_can_be_told_apart(dark):
    """By the contrast of 3 that WCAG 2.2 asks of graphics, light and dark."""
    shown = dark_color if dark else str

    def rgb(color):
        return np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])

    paper, error = rgb("#14181c" if dark else "#ffffff"), rgb(shown("#000000"))
    for color in (BLUE, PALE):
        bar = BAR * rgb(shown(color)) + (1 - BAR) * paper
        low, high = sorted((luminance(bar), luminance(error)))
        assert (high + 0.05) / (low + 0.05) > 3.0


def test_every_colour_of_pictures_has_a_twin_on_dark_pages(odd):
    light, _, dark = odd.partition("@media screen and (prefers-color-scheme: dark)")
    used = set(re.findall(r"var\((--c[0-9a-f]{6})\)", odd))
    assert used
    for name in used:
        assert f"{name}:#{name[3:]}" in light
        assert f"{name}:{dark_color('#' + name[3:])}" in dark
    assert dark_color("#000000") == "#ededed"
    assert dark_color("#ffffff") == "#191919"
    drawn = re.sub(
        r"<text.*?</text>|aria-label=\"[^\"]*\"",
        "",
        " ".join(re.findall("<svg.*?</svg>", odd, re.DOTALL)),
        flags=re.DOTALL,
    )
    assert not re.search(r"#[0-9a-f]{6}\b", drawn)


def test_what_is_written_on_an_image_keeps_its_colour(tmp_path):
    class Heat(Panel):
        name = "heat"

        def draw(self, ax, /):
            ax.imshow([[0.0, 1.0]])
            ax.text(0, 0, "black")
            ax.text(1, 0, "white", color="white")

    page = written(Description(name="Mine", panels=(Heat(),)), tmp_path / "r.html")
    for name, color in (("black", "#000000"), ("white", "#ffffff")):
        assert re.search(rf"<text [^>]*fill: {color}[^>]*>{name}</text>", page)


def test_a_page_says_all_there_is(odd):
    titles = re.findall("<h2>(.*?)</h2>", odd)
    assert titles == [
        "What matters",
        "Predictions for held-out rows",
        "Members and their blend",
        "Compared with simple models",
        "What was learned",
        "The data",
        "The model",
        "How to repeat it",
    ]
    for word in (
        "scikit-learn",
        "Python",
        "30\u00a0%",
        "0.500 ± 0.100",
        "20.0\u00a0%",
        "gpukfl.fit(X, ",
    ):
        assert word in odd
    assert "@media print" in odd
    assert 'name="viewport"' in odd


def test_ten_thousand_columns_make_a_page_of_a_sane_size(tmp_path):
    names = tuple(f"column {k}" for k in range(10_000))
    told = described(
        names, data=DataFacts(tuple(ColumnFacts(n, "numeric") for n in names[:60]), 10_000)
    )
    page = written(told, tmp_path / "r.html")
    assert len(page) < 400_000
    assert "9\u00a0940 more columns are not listed" in page
    assert "9980 more have an importance" in page


def test_without_rows_that_were_held_out_the_page_says_so(tmp_path):
    told = Description(name="Mine", panels=(described(ODD).panels[0],))
    page = written(told, tmp_path / "r.html")
    assert "No rows were held out" in page
    assert "No rows were held out" not in written(told, tmp_path / "r.html", R2=0.5)


@pytest.mark.parametrize("t", [8])
def test_each_of_several_targets_has_its_picture(tmp_path, t):
    truth, predicted, _ = held_out(t=t)
    names = tuple(f"target {k}" for k in range(t))
    page = written(
        Description(name="Mine", panels=(Predictions(truth, predicted, names),)),
        tmp_path / "r.html",
    )
    assert Page(page).kinds.count("svg") == min(t, 6)
    assert "Predicted and true values: <bdi" in page


def test_small_pictures_of_classes_share_a_scale():
    steps = np.linspace(-1.0, 1.0, 20)
    values = np.outer(steps, [1.0, 3.0]) + 7.0
    told = Curves(("along a",), (steps,), (values,), ("class b", "class c"))
    (first, one), (second, other) = told.apart()
    assert (first, second) == ("class b", "class c")
    assert one.limits == other.limits == pytest.approx((-3.3, 3.3))


def test_calibration_is_drawn_for_classes(tmp_path):
    codes = RNG.integers(0, 3, 90)
    panel = Reliability(RNG.dirichlet(np.ones(3), 90), codes, ("a", "b", "c"))
    page = written(Description(name="Mine", panels=(panel,)), tmp_path / "r.html")
    assert "calibration of probabilities on 90 rows; off on average: a by" in page


def test_without_matplotlib_there_are_tables(tmp_path, monkeypatch, odd):
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    page = written(described(ODD), tmp_path / "r.html")
    assert "they need matplotlib" in page
    assert "<svg" not in page
    assert re.findall("<h3>(.*?)</h3>", page) == ["Most important columns", "Learned directions"]
    assert "they need matplotlib" not in odd


def test_where_nothing_can_be_written_nothing_is_left(tmp_path, monkeypatch):
    told = Description(name="Mine")
    with pytest.raises(FileNotFoundError, match="expected an existing folder to write"):
        written(told, tmp_path / "no" / "r.html")
    with pytest.raises(OSError, match="expected the name of a file"):
        written(told, tmp_path)
    before = written(told, tmp_path / "r.html")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and real(path, mode))
    with pytest.raises(
        PermissionError, match=r"expected a writable folder for .*, got a read-only"
    ):
        written(told, tmp_path / "other.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == before
    assert stat.S_ISREG((tmp_path / "r.html").stat().st_mode)


# ---------------------------------------------------------------------- terminals and notebooks


@pytest.mark.parametrize("name", [*ODD, "長い名前" * 30, "a b " * 60])
def test_a_summary_fits_a_terminal(name):
    from rich.cells import cell_len

    told = described((name, *ODD), columns=f"1 text, left out {name}", text=name)
    lines = summarize(told).split("\n")
    assert max(map(cell_len, lines)) <= 80
    assert not any(unicodedata.category(c) == "Cc" for line in lines for c in line)


def test_a_notebook_is_shown_names_as_text():
    shown = card(described(ODD))
    page = Page(shown)
    assert page.open == []
    assert not {"script", "img"} & set(page.kinds)
    assert "http" not in shown
    assert len(shown) < 10_000
    assert "Something is wrong with" in shown


def test_a_result_is_shown_by_its_summary():
    class Result(Told):
        def summary(self):
            return "Title <b>\n  one  two\n  <3>"

    shown = Result()._repr_html_()
    assert "<b>Title &lt;b&gt;</b>" in shown
    assert "<pre>  one  two\n  &lt;3&gt;</pre>" in shown
