"""What each command can be told, by story. Light: nothing is loaded here, so that `--help` answers at once."""
