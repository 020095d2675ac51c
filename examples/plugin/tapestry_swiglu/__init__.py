"""The gated linear unit of Llama as one operator, two rules about it, a device and a mesh.

Nothing is imported here: each entry point loads what it names, and one that breaks leaves the others alone.
"""
