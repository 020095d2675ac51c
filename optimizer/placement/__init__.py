"""Search over placements of one program: seeds, variation, islands."""
