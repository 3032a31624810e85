"""``python -m insular``."""

from insular.cli.process import main

main()
