"""Scores, pictures and reports of what was learned."""

from gpukfl.inspection._plots import plot_model
from gpukfl.inspection._regfeal_plots import plot_degrees, plot_eta
from gpukfl.inspection._report import write_report
from gpukfl.inspection._scores import effective_rank, feature_score, leading_directions
from gpukfl.inspection._selection_plots import plot_path, plot_roc, plot_rounds
from gpukfl.inspection._weighting_plots import plot_bound, plot_sparsity, plot_stumps, plot_tuning

__all__ = [
    "effective_rank",
    "feature_score",
    "leading_directions",
    "plot_bound",
    "plot_degrees",
    "plot_eta",
    "plot_model",
    "plot_path",
    "plot_roc",
    "plot_rounds",
    "plot_sparsity",
    "plot_stumps",
    "plot_tuning",
    "write_report",
]
