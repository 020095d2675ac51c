"""Diagnosis of an installation: checks of the host, the settings and the database, each with what to do about it."""
