"""Selector rules: operators that move elements and compute nothing. One topic per file, combined here."""
