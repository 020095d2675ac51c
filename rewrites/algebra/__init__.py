"""Algebraic rules: the same values by fewer or cheaper operations. One topic per file, combined here."""
