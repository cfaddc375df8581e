"""Scores, pictures and reports of fitted models.

They know no estimator: what is fitted gives a `Description`, which says in words, names and host
arrays what there is.
"""

from typing import TYPE_CHECKING

from gpukfl.core._lazy import deprecated_names
from gpukfl.inspection._class_panels import Confusion, RocCurves
from gpukfl.inspection._description import (
    ColumnFacts,
    DataFacts,
    Description,
    Names,
    get_description,
    summarize,
)
from gpukfl.inspection._display import Shown, Told, card, text_card
from gpukfl.inspection._explanation import Beeswarm, Explanation, Waterfall
from gpukfl.inspection._figures import (
    plot_bound,
    plot_confusion,
    plot_curves,
    plot_degrees,
    plot_directions,
    plot_eta,
    plot_importances,
    plot_leaderboard,
    plot_model,
    plot_objective,
    plot_panel,
    plot_path,
    plot_predictions,
    plot_reliability,
    plot_residuals,
    plot_roc,
    plot_roc_curves,
    plot_rounds,
    plot_sparsity,
    plot_stumps,
    plot_tuning,
)
from gpukfl.inspection._held_out import Predictions, Reliability, ResidualPlot
from gpukfl.inspection._panels import (
    Bound,
    Curves,
    Degrees,
    Directions,
    Eta,
    HeldOutImportances,
    Importances,
    Objective,
    Panel,
    Path,
    Rounds,
    Sparsity,
    StumpCurves,
    direction_name,
)
from gpukfl.inspection._report import Inferred, write_report
from gpukfl.inspection._scores import effective_rank, feature_score, leading_directions
from gpukfl.inspection._tuning import Compared, Comparison, Leaderboard, Ridges, Tuning

__all__ = [
    "Beeswarm",
    "Bound",
    "ColumnFacts",
    "Compared",
    "Comparison",
    "Confusion",
    "Curves",
    "DataFacts",
    "Degrees",
    "Description",
    "Directions",
    "Eta",
    "Explanation",
    "HeldOutImportances",
    "Importances",
    "Inferred",
    "Leaderboard",
    "Names",
    "Objective",
    "Panel",
    "Path",
    "Predictions",
    "Reliability",
    "ResidualPlot",
    "Ridges",
    "RocCurves",
    "Rounds",
    "Shown",
    "Sparsity",
    "StumpCurves",
    "Told",
    "Tuning",
    "Waterfall",
    "card",
    "direction_name",
    "effective_rank",
    "feature_score",
    "get_description",
    "leading_directions",
    "plot_bound",
    "plot_confusion",
    "plot_curves",
    "plot_degrees",
    "plot_directions",
    "plot_eta",
    "plot_importances",
    "plot_leaderboard",
    "plot_model",
    "plot_objective",
    "plot_panel",
    "plot_path",
    "plot_predictions",
    "plot_reliability",
    "plot_residuals",
    "plot_roc",
    "plot_roc_curves",
    "plot_rounds",
    "plot_sparsity",
    "plot_stumps",
    "plot_tuning",
    "summarize",
    "text_card",
    "write_report",
]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"described": "get_description"})
