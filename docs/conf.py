"""Sphinx settings: ``sphinx-build -W -b html docs docs/_build/html``, without a network."""

import re
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpukfl._version import __version__

project = "gpukfl"
copyright = "the gpukfl authors"
author = "the gpukfl authors"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# The generated tables are included by other pages and are no pages themselves
exclude_patterns = ["_build", "_generated/*.md", "gallery"]
templates_path = ["_templates"]
nitpicky = False
default_role = "py:obj"  # single backticks in docstrings: a link where there is a page, else code

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# What scikit-learn adds to every estimator is documented there
autosummary_context = {
    "not_ours": [
        "__init__",
        "fit_transform",
        "get_metadata_routing",
        "get_params",
        "set_fit_request",
        "set_output",
        "set_params",
        "set_predict_request",
        "set_score_request",
    ]
}

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# The stories run with every build; one that fails or warns ends it
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "gallery_built",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "image_scrapers": ("alt_texts.scrape",),
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "show_signature": False,
    "parallel": 2,
    "write_computation_times": False,
}
warnings.filterwarnings("error", module=r"__main__$|gpukfl")

html_theme = "furo"
html_title = f"gpukfl {__version__}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#31688e", "color-brand-content": "#31688e"},
    "dark_css_variables": {"color-brand-primary": "#7fb8d8", "color-brand-content": "#7fb8d8"},
}


# ``sphinx-build -b linkcheck docs ...`` asks the network; what is busy is asked again
linkcheck_timeout = 20
linkcheck_retries = 3
linkcheck_workers = 4
linkcheck_rate_limit_timeout = 60
linkcheck_report_timeouts_as_broken = True
linkcheck_anchors = False  # pages that scripts build have them only in a browser


def escape_shapes(*event):
    """Keep ``shape (n_effective_features_, d)`` from being read as a link, as a_ is in reST."""
    lines = event[-1]
    lines[:] = [re.sub(r"(?<=[(\s])(\w+)_(?=[,)])", r"\1\\_", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_shapes, priority=100)  # before numpydoc
