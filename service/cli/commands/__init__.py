"""One module per command, loaded when it is chosen: `run(arguments) -> exit code`."""
