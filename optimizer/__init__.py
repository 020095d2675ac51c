"""How the frontier is searched."""
