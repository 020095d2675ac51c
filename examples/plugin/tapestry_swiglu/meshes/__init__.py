"""Meshes, one TOML file each."""
