"""A description is all that texts, pictures and reports know of a model; anything may give one."""

import ast
import pathlib
import re
import warnings
from dataclasses import dataclass
from inspect import signature
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import gpukfl.inference
from gpukfl import inspection
from gpukfl.inspection import (
    Curves,
    Description,
    Directions,
    Importances,
    Objective,
    Panel,
    Shown,
    Tuning,
    plot_curves,
    plot_importances,
    plot_model,
    plot_objective,
    plot_tuning,
    summarize,
    write_report,
)
from gpukfl.inspection._measures import Score, Scored

plt = pytest.importorskip("matplotlib.pyplot")
from pictures import figure_of, panels, said  # noqa: E402

FEATURES = ("a", "b", "c")


def trial(score, *, chosen=False, ridge=0.1, **more):
    return {"ridge": ridge, "score": score, "chosen": chosen, **more}


def described(score=0.5, **more):
    return Description(
        name="Mine",
        panels=(Importances(FEATURES, np.array([0.7, 0.2, 0.1]), "norms"),),
        tuning=Tuning((trial(score, chosen=True), trial(score - 0.1, ridge=1.0)), **more),
    )


# ---------------------------------------------------------------------- a method of one's own


class Means(Shown, RegressorMixin, BaseEstimator):
    """A sixth method, that has no more than a line to say."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def describe(self):
        return Description(name="Means", text=f"predicts {self.mean_:g}")


@dataclass(frozen=True)
class Heights(Panel):
    """A panel that no one else has."""

    name: ClassVar[str] = "heights"
    values: tuple[float, ...]

    def draw(self, ax, /):
        ax.plot(self.values)
        ax.set(title="Heights")
        return ax


def test_a_method_says_what_it_has_and_the_rest_is_left_out(tmp_path):
    model = Means().fit(np.ones((3, 2)), [1.0, 2.0, 6.0])
    assert model.summary() == "Means for y\n  model       predicts 3"
    model.report(tmp_path / "report.html", scores={"mine": 0.25})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" not in page
    assert "<b>0.2500</b><small>mine</small>" in page
    with pytest.raises(ValueError, match="something to draw, got Means, which has no pictures"):
        model.plot()
    with pytest.raises(ValueError, match="a panel of Means, one of none, got 'importances'"):
        model.plot("importances")


def test_a_panel_of_ones_own_is_drawn_with_the_others(tmp_path):
    told = Description(name="Mine", panels=(Heights((1.0, 3.0)), *described().panels))
    assert {"Heights", "Feature importances"} <= set(said(plot_model(told)))
    write_report(told, tmp_path / "report.html", scores={})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'aria-label="heights"' in page
    assert 'aria-label="importances: a 0.70, b 0.20, c 0.10"' in page


def test_only_what_describes_itself_is_drawn():
    with pytest.raises(TypeError, match="estimator or Model with a method describe, got float"):
        summarize(1.0)


def test_inspection_reads_no_attribute_of_an_estimator():
    """Neither by name nor by `getattr`: fitted attributes end in an underscore."""
    for path in pathlib.Path(inspection.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                fitted = re.fullmatch(r"[a-zA-Z]\w*[a-zA-Z0-9]_", node.attr)
                assert not fitted, f"{path.name}:{node.lineno}: {node.attr}"
                assert node.attr != "estimator", f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
                assert ast.unparse(node.args[1]) == "'describe'", f"{path.name}:{node.lineno}"


# ---------------------------------------------------------------------- pyplot


def test_figures_are_of_pyplot_and_axes_are_given_back():
    (ax,) = plot_model(described(), figsize=(3.0, 2.0))
    assert plt.gcf() is ax.figure
    assert tuple(ax.figure.get_size_inches()) == (3.0, 2.0)
    ax = plot_importances(described(), figsize=(4.0, 3.0))
    assert plt.gca() is ax
    assert tuple(ax.figure.get_size_inches()) == (4.0, 3.0)
    _, (left, right) = plt.subplots(1, 2)
    known = len(plt.get_fignums())
    assert plot_importances(described(), ax=left) is left
    assert plot_tuning(described(), ax=right) is right
    assert len(plt.get_fignums()) == known
    with pytest.raises(ValueError, match="expected ax or figsize, got both"):
        plot_importances(described(), ax=left, figsize=(1.0, 1.0))


def test_every_picture_takes_an_axes_or_a_size():
    import inspect

    for name in inspection.__all__:
        if name.startswith("plot_"):
            parameters = inspect.signature(getattr(inspection, name)).parameters
            assert "figsize" in parameters, name
            assert "ax" in parameters or name == "plot_model", name


def test_a_report_leaves_no_figure_and_needs_no_pyplot_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(plt, "figure", None)  # a window cannot be made in another thread
    write_report(described(), tmp_path / "report.html", scores={})
    assert plt.get_fignums() == []
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------- panels


@pytest.mark.parametrize("steps", [0, 1])
def test_an_objective_without_steps_is_left_out(steps):
    objective = Objective((1.0,) * steps)
    told = Description(name="Mine", panels=(*described().panels, objective))
    assert panels(plot_model(told)) == ["importances"]
    with pytest.raises(ValueError, match=f"the fit took {steps or 'no'} step; it has importances"):
        plot_objective(told)


def curves(n_outputs, n_curves=2):
    t = np.linspace(-1.0, 1.0, 5)
    values = np.outer(t, np.arange(1.0, n_outputs + 1))
    return Curves(
        tuple(f"direction {k}" for k in range(n_curves)),
        (t,) * n_curves,
        tuple((k + 1) * values for k in range(n_curves)),
        tuple(f"class {k}" for k in range(n_outputs)),
    )


def test_every_output_has_its_picture_with_one_scale():
    told = Description(name="Mine", panels=(*described().panels, curves(3)))
    texts = said(plot_model(told))
    assert [t for t in texts if t.startswith("class")] == ["class 0", "class 1", "class 2"]
    assert texts.count("direction 0") == texts.count("direction 1") == 1  # one legend
    axes = plot_curves(told)
    assert len(axes) == 3
    assert len({ax.get_ylim() for ax in axes}) == 1
    for k, ax in enumerate(axes):
        t = np.linspace(-1.0, 1.0, 5)
        np.testing.assert_allclose(ax.lines[1].get_ydata(), 2 * (k + 1) * t, atol=1e-12)


def test_panels_stay_in_their_order_and_rows_are_filled():
    small = described().panels[0], Heights((1.0, 3.0)), Objective((2.0, 1.0))
    told = Description(name="Mine", panels=(small[0], curves(3), small[1], small[2]))
    figure = figure_of(plot_model(told))
    figure.draw_without_rendering()
    place = {ax.get_title(): ax.get_position() for ax in figure.axes}
    first, second = place["Feature importances"], place["Heights"]
    assert first.y0 == pytest.approx(second.y0)
    assert first.x1 < second.x0
    assert place["Optimisation of the final fit"].y1 < first.y0
    assert "class 0" in place


def test_many_outputs_are_those_that_vary_most_and_the_rest_is_counted():
    told = Description(name="Mine", panels=(curves(8),))
    axes = plot_curves(told)
    assert [ax.get_title() for ax in axes] == [f"class {k}" for k in range(2, 8)]
    assert any("2 of 8 left out" in text for text in said(axes[0].figure))


@pytest.mark.parametrize("output", [1, -2, "class 1"])
def test_one_output_can_be_asked_for(output):
    told = Description(name="Mine", panels=(curves(3),))
    figure, ax = plt.subplots()
    assert plot_curves(told, output=output, ax=ax) is ax
    assert ax.get_ylabel() == "contribution to class 1, less its mean"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 2 * np.linspace(-1.0, 1.0, 5), atol=1e-12)
    assert figure.axes == [ax]


@pytest.mark.parametrize("output", [3, "class 7"])
def test_an_unknown_output_is_named(output):
    with pytest.raises(ValueError, match=f"one of class 0, class 1, .*, got {output!r}"):
        plot_curves(Description(name="Mine", panels=(curves(3),)), output=output)


def test_several_outputs_take_the_place_of_an_axes():
    told = Description(name="Mine", panels=(curves(3),))
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    axes = plot_curves(told, ax=right)
    assert len(axes) == 3
    assert left in figure.axes
    assert right not in figure.axes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    with pytest.raises(ValueError, match=r"an axes that plt\.subplots made for several outputs"):
        plot_curves(told, ax=plt.figure().add_axes((0.1, 0.1, 0.8, 0.8)))


def test_all_panels_take_the_place_of_an_axes():
    told = Description(name="Mine", panels=(*described().panels, curves(3)))
    figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(12, 6))
    axes = plot_model(told, ax=right)
    assert [type(ax) for ax in axes] == [plt.Axes] * 4
    assert {ax.figure.figure for ax in axes} == {figure}
    assert left in figure.axes
    assert right not in figure.axes
    figure.draw_without_rendering()
    assert min(ax.get_tightbbox().x0 for ax in axes) > left.get_window_extent().x1
    with pytest.raises(ValueError, match=r"plt\.subplots made for all panels, or the name of one"):
        plot_model(told, ax=plt.figure().add_axes((0.1, 0.1, 0.8, 0.8)))
    with pytest.raises(ValueError, match="expected ax or figsize, got both"):
        plot_model(told, ax=left, figsize=(3.0, 2.0))


def plotting():
    """Every public function that draws, with its name."""
    for module in (inspection, gpukfl.inference):
        for name in module.__all__:
            value = getattr(module, name)
            if name.startswith("plot_"):
                yield name, value
            elif isinstance(value, type):
                drawing = (one for one in dir(value) if one == "plot" or one.startswith("plot_"))
                yield from ((f"{name}.{one}", getattr(value, one)) for one in drawing)


DRAWING = dict(plotting())


@pytest.mark.parametrize("name", DRAWING)
def test_all_that_draw_take_an_axes_and_return_axes(name):
    parameters = signature(DRAWING[name]).parameters
    assert parameters["ax"].default is None
    assert parameters["figsize"].default is None
    returned = DRAWING[name].__doc__.partition("Returns\n")[2].partition("Raises\n")[0]
    assert "matplotlib.axes.Axes" in returned
    assert "Figure" not in returned


def test_names_are_shown_as_they_are():
    names = ("$a_b$", "x" * 60, "c")
    values = np.array([0.5, 0.3, 0.2])
    told = Description(
        name="Mine",
        panels=(Importances(names, values), Directions(names, np.eye(3)[:1], values)),
    )
    texts = said(plot_model(told))
    assert r"\$a_b\$" in texts
    assert "xxxxxxxxxxx…xxxxxxxxxxx" in texts


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("small", ["importances", "loadings"])
def test_directions_in_which_no_feature_stands_out_are_not_drawn(tmp_path, small):
    importances = np.zeros(3) if small == "importances" else np.ones(3)
    loadings = np.eye(3)[:1] * (1e-9 if small == "loadings" else 1.0)
    learned = Directions(FEATURES, loadings, importances)
    told = Description(name="Mine", panels=(*described().panels, learned))
    assert learned.empty == "no feature stands out in the learned directions"
    write_report(told, tmp_path / "report.html", scores={})
    assert "earned directions" not in (tmp_path / "report.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------- tuning


def test_a_score_has_its_error():
    trials = (
        trial(0.431, chosen=True, standard_error=0.02, seconds=4.0),
        trial(0.3, ridge=1.0, standard_error=0.03, seconds=2.2),
    )
    told = Description(name="Mine", tuning=Tuning(trials), seconds=10.0)
    expected = "held-out R² 0.431 ± 0.020, best of 2 settings"
    assert expected in summarize(told)
    errors = plot_tuning(told).collections
    assert len(errors) == 1  # bars


def test_scores_without_error_and_time_are_told_too():
    assert "score       held-out R² 0.500, best of 2 settings\n" in summarize(described())
    one = Description(name="Mine", tuning=Tuning((trial(0.5, chosen=True),)))
    assert summarize(one).endswith("best of 1 setting")
    with pytest.raises(ValueError, match="ridge was not tuned"):
        plot_tuning(one)


def test_a_setting_that_is_not_the_best_is_not_said_to_be():
    trials = (trial(0.4, chosen=True), trial(0.5, ridge=1.0))
    assert "chosen of 2 settings" in summarize(Description(name="Mine", tuning=Tuning(trials)))


def test_the_score_of_a_blend_says_on_which_rows():
    trials = (trial(0.6, chosen=True), trial(0.5, ridge=1.0), trial(0.4), trial(None))
    tuning, found = Tuning(trials, of="member"), (Score("R²", 0.6, 0.05), Score("RMSE", 2.0))
    rows = Scored("held-out", "60 rows in 3 folds", found)
    text = summarize(Description(name="Mine", tuning=tuning, scored=(rows,)))
    assert text.endswith("held-out R² 0.600 ± 0.050 on 60 rows in 3 folds, RMSE 2.000")


def test_the_report_shows_errors_and_seconds(tmp_path):
    trials = (
        trial(0.431, chosen=True, standard_error=0.02, seconds=4.0),
        trial(None, ridge=1.0, standard_error=None, seconds=2.0),
    )
    told = Description(name="Mine", tuning=Tuning(trials, cut_short=True), seconds=8.0)
    write_report(told, tmp_path / "report.html", scores={})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    head = ("ridge", "held-out R²", "seconds")
    assert "".join(f'<th scope="col">{one}</th>' for one in head) in page
    assert "<td>0.1</td><td>0.431 ± 0.020</td><td>4</td>" in page
    assert "<td>1</td><td>stopped</td><td>2</td>" in page
    assert "best of 2 settings; cut short by max_time." in page
    assert ">standard_error" not in page


def test_tuning_that_was_cut_short_is_said_to_be():
    assert "tuning      cut short by max_time" in summarize(described(cut_short=True))
    assert "cut short" not in summarize(described())


def test_ticks_are_at_the_values_that_were_tried():
    ax = plot_tuning(described())
    ax.figure.draw_without_rendering()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.1", "1"]


def test_one_step_is_one_step():
    assert "1 step, converged" in summarize(Description(name="M", n_steps=1, ended="converged"))
    assert "2 steps, converged" in summarize(Description(name="M", n_steps=2, ended="converged"))


# ---------------------------------------------------------------------- nothing found


@pytest.mark.parametrize(
    ("score", "error", "nothing"),
    [(-0.1, None, True), (0.0, 0.01, True), (0.02, 0.03, True), (0.02, 0.01, False)],
)
def test_what_predicts_nothing_is_said_to(score, error, nothing, tmp_path):
    known = {} if error is None else {"standard_error": error}
    tuning = Tuning((trial(score, chosen=True, **known),))
    told = Description(name="Mine", panels=described().panels, tuning=tuning)
    write_report(told, tmp_path / "report.html", scores={})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    picture = " ".join(said(plot_importances(told).figure)).replace("\n", " ")
    for text in (summarize(told), page, picture):
        assert ("othing was found that predicts: the held-out R² is" in text) == nothing
        assert ("importances mean nothing" in text) == nothing
    assert ("importance (means nothing)" in summarize(told)) == nothing
    assert ("Nothing" in page) == nothing
