"""How the pages are built: `make docs`. A warning is an error."""

project = "Wirehouse"
author = "The Wirehouse developers"
project_copyright = "The Wirehouse developers"
release = "0.1.0"
version = "0.1"

language = "en"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "Thumbs.db", ".DS_Store"]

# The guides and the reference are listed by pattern; either folder may be empty.
suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "Wirehouse"
html_show_sphinx = False
html_copy_source = False
