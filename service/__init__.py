"""Who may ask: command line and store."""
