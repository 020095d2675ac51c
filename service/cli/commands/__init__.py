"""The commands, in a module each, loaded when it is chosen: `run(arguments) -> exit code`."""
