"""Devices, one TOML file each."""
