"""`python -m tapestry.service.cli`: the command line without an installed script."""

import sys

from tapestry.service.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
