"""Expansions: operators expressed by simpler ones. One topic per file, combined here."""
