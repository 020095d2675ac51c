"""`python -m service.cli`: the command line without an installed script."""

import sys

from service.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
