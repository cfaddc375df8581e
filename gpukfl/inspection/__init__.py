"""Scores, pictures and reports of what was learned."""

from gpukfl.inspection._plots import plot_model
from gpukfl.inspection._report import write_report
from gpukfl.inspection._scores import effective_rank, feature_score, leading_directions

__all__ = ["effective_rank", "feature_score", "leading_directions", "plot_model", "write_report"]
