"""How the pages are built: `make docs`. A warning is an error."""

import logging

project = "Wirelake"
author = "The Wirelake developers"
project_copyright = "The Wirelake developers"
release = "0.1.0"
version = "0.1"

language = "en"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "Thumbs.db", ".DS_Store"]

# The guides and the reference are listed by pattern, and either folder may be empty. Sphinx
# gives this one warning a subtype but no type, so `suppress_warnings` cannot name it.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", None) != "empty_glob"
)

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "Wirelake"
html_show_sphinx = False
html_copy_source = False
