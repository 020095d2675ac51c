"""Import of StableHLO modules, and JAX functions through them: read, unrolled, translated into the importer's steps."""
