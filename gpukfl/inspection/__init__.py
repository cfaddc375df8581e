"""Scores and pictures of what was learned."""

from gpukfl.inspection._scores import effective_rank, feature_score, leading_directions

__all__ = ["effective_rank", "feature_score", "leading_directions"]
