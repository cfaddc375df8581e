"""One HTML file that shows a fitted model."""

from __future__ import annotations

import base64
import html
import io
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

from gpukfl._version import __version__
from gpukfl.inspection._plots import plot_model

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.scores {{ display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }}
.score {{ background: #eef3f7; border-radius: 8px; padding: .6rem 1.2rem; }}
.score b {{ display: block; font-size: 1.5rem; color: #31688e; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .25rem .9rem .25rem 0; text-align: left;
  border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; }}
tr.chosen {{ font-weight: 600; color: #31688e; }} img {{ width: 100%; }}
.note {{ color: #666; font-size: .9rem; }} pre {{ background: #f6f6f6; padding: .8rem; }}
</style></head><body>
<h1>{title}</h1><p class="note">{subtitle}</p>
<div class="scores">{scores}</div>
<h2>What was learned</h2><img alt="Feature importances, learned directions or scores, shape
functions or profiles, and objective" src="data:image/png;base64,{picture}">
<p class="note">Importances, directions and projections are in standard deviations of the features.
{curves_note}</p>
<h2>The model</h2><table>{facts}</table>
{tuning}
<h2>Most important features</h2>
<table><tr><th>feature</th><th>importance</th></tr>{features}</table>
<p class="note">Written {date} by gpukfl {version}, Python {python}.</p>
</body></html>
"""


def write_report(model: Any, path: str | Path, /, *, scores: dict[str, float]) -> None:
    """Write `model` as one HTML page with the pictures inside.

    Parameters
    ----------
    model : Model
        A fitted model.
    path : str or Path
        Where to write.
    scores : dict
        Named scores for the top of the page.
    """
    shown = dict(scores)
    chosen = [trial for trial in model.tuning if trial["chosen"]]
    name = "R²" if model.task == "regression" else "explained Brier score"
    if chosen:
        shown[f"{name} in tuning"] = chosen[0]["score"]
    shown[f"{model.estimator._dimension_name}s"] = model.estimator.n_effective_features_
    page = _PAGE.format(
        title=html.escape(f"{model.target_name}: {type(model.estimator).__name__}"),
        subtitle=html.escape(
            f"{model.task} on {model.n_samples:,} samples and {len(model.feature_names)} features, "
            f"{model.seconds:.1f} s"
        ),
        scores="".join(_score(label, value) for label, value in shown.items()),
        picture=_picture(model),
        curves_note=model.estimator._curves_note,
        facts=_facts(model),
        tuning=_tuning(model, name),
        features="".join(
            f"<tr><td>{html.escape(feature)}</td><td>{value:.3f}</td></tr>"
            for feature, value in model.most_important(20)
        ),
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        python=platform.python_version(),
    )
    Path(path).write_text(page, encoding="utf-8")


def _score(label: str, value: float) -> str:
    shown = f"{value:.4f}" if isinstance(value, float) else str(value)
    return f'<div class="score"><b>{shown}</b>{html.escape(label)}</div>'


def _picture(model: Any) -> str:
    buffer = io.BytesIO()
    plot_model(model).savefig(buffer, format="png", dpi=120)
    return base64.b64encode(buffer.getvalue()).decode()


def _facts(model: Any) -> str:
    e = model.estimator
    facts = e._facts() | {
        "steps": f"{e.n_iter_} ({e.status_.lower().replace('_', ' ')})",
        "computed on": e.place_,
    }
    rows = (f"<tr><td>{k}</td><td>{html.escape(str(v))}</td></tr>" for k, v in facts.items())
    return "".join(rows)


def _tuning(model: Any, name: str) -> str:
    if not model.tuning:
        return ""
    settings = [
        key
        for key in model.tuning[0]
        if key not in ("score", "chosen") and any(t[key] is not None for t in model.tuning)
    ]
    trials = sorted(model.tuning, key=lambda trial: [_order(trial[key]) for key in settings])
    head = "".join(f"<th>{_HEADS.get(key, key)}</th>" for key in settings)
    rows = "".join(
        f'<tr class="{"chosen" if trial["chosen"] else ""}">'
        + "".join(f"<td>{_cell(trial[key])}</td>" for key in settings)
        + f"<td>{'stopped' if trial['score'] is None else format(trial['score'], '.4f')}</td></tr>"
        for trial in trials
    )
    return f"<h2>Tuning</h2><table><tr>{head}<th>hold-out {name}</th></tr>{rows}</table>"


def _order(value: Any) -> tuple[bool, Any]:
    """Key to sort settings by, of which some may not apply."""
    return (False, 0) if value is None else (True, value)


_HEADS = {
    "multiple": "times the paper's",
    "n_components": "components",
    "n_selected": "selected",
}


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return format(value, ".3g") if isinstance(value, float) else html.escape(str(value))
