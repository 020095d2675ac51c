"""Telemetry: what logs, traces and metrics say of a request is the same from its arrival to the worker's last word."""
