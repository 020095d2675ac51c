"""Compiler passes that let a service shard a program, one for JAX and one for PyTorch."""
