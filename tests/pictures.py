"""What a picture says."""

from matplotlib.text import Text


def said(figure):
    """Every text of a figure or an axes that is not empty, drawn first."""
    getattr(figure, "figure", figure).draw_without_rendering()
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


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
    "predictions": "Predictions for rows",
    "residuals": "Residuals of rows",
    "reliability": "Calibration of probabilities",
    "roc": "ROC curve",
    "confusion": "Confusion matrix",
}


def panels(figure):
    """Names of the panels that a figure shows."""
    texts = said(figure)
    return [name for name, title in TITLES.items() if any(t.startswith(title) for t in texts)]
