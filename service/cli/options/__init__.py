"""Options of the commands, grouped by topic. Light: nothing is loaded here, so that `--help` answers at once."""
