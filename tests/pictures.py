"""What a picture says."""

import numpy as np
from matplotlib.text import Text


def figure_of(axes):
    """The whole figure of an axes or an array of them."""
    figure = np.ravel(axes)[0].figure
    return getattr(figure, "figure", None) or figure  # that of a part of a figure


def said(drawn):
    """Every text that is not empty of axes, or of the figure of an array of them; drawn first."""
    if isinstance(drawn, np.ndarray):
        drawn = figure_of(drawn)
    getattr(drawn, "figure", drawn).draw_without_rendering()
    return [text.get_text() for text in drawn.findobj(Text) if text.get_text()]


TITLES = {
    "importances": "Feature importances",
    "directions": "Learned directions",
    "curves": ("Functions along the learned", "Prediction along the"),
    "objective": "Optimisation of the final fit",
    "rounds": "Scores where variables entered",
    "path": "Path over γ",
    "eta": "Importances over the iterations",
    "degrees": "Degrees of the Hermite features",
    "stumps": "Decision stumps",
    "sparsity": "Sparsity",
    "tuning": "Choice of the",
    "bound": "Bound (71)",
    "ridges": "Error by ridge",
    "predictions": "Predicted and true values",
    "residuals": "Residuals",
    "reliability": "Calibration of probabilities",
    "roc": "ROC curve",
    "confusion": "Confusion matrix",
}


def panels(drawn):
    """Names of the panels that a figure shows."""
    texts = said(drawn)
    return [name for name, title in TITLES.items() if any(t.startswith(title) for t in texts)]
