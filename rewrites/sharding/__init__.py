"""Sharding by rewriting the program. One topic per file, combined here.

Most of sharding needs no rule: it is a placement. The sharding of a block is its strategy, and these moves
(`rewrites.placement_rules`) change it:

| compiler term | counterpart here |
| --- | --- |
| split along a dimension | `reshard`: the dimension's sub-axes in the block's strategy |
| replicate | `reshard` to a strategy without sub-axes, or `follow` for a source |
| partial sums | `reshard` with sub-axes on a summed dimension: the result's spec is partial |
| all-reduce, reduce-scatter, all-gather, all-to-all | what an edge between two specs moves |
| halo | a window's projection: a split dimension reads beyond its chunk, and an edge fetches it |
| prefetch, regather | the genes of those names |

The rules here change the program so that a placement exists that did not before: a sum in parts with a dimension
of their own, a linear operator on the other side of the sum, a waypoint between two specs, pieces that overlap.
"""
