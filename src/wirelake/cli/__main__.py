"""`python -m wirelake.cli`: the command without its installed script."""

import sys

from .main import main

sys.exit(main())
