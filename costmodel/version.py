"""The version of the cost model: two versions may give one plan different costs, which do not compare.

Raise `COST_MODEL_VERSION` with every change after which some plan costs something else on the same mesh: in what is
counted (convention, columns, sizes), not in the figures of a device, which a stored run holds itself. Add a line here
and store the costs of the reference plans again: `python -m tests.costmodel.golden`.

1. All releases before costs had a version.
2. Carried state ends where it begins; parts of live copies are views; fetches that arrive in another order are
   repacked.
3. What is no run of memory is packed before it is sent. A copy takes as long as moving what a device keeps. Carried
   state is a buffer of its own: views and parts of larger buffers are copied.
4. Before a fetch, devices pack what others need of their parts, and not all of them.
5. A copy is timed by what is exchanged: gathers of windows are gathers, an all-reduce is one exchange. The mesh axes of
   a phase work on different pieces at one time.
6. Tables of measured collectives correct what follows from the figures of links.
7. Blocks are timed by the class of their kernel, rows, and the level of memory that holds them.
8. Grouped convolutions are computed directly where that is faster than products padded to tiles. Groups of several
   output channels are products of so many columns. Pools have kernel classes of their own.
9. The seconds that a block's table of costs states are its time.
10. No device receives faster than its links, whatever measurements of other groups or machines say.
   Classes bound by memory without measurements have the figures of another precision before those of another class.
11. Copies over links of their own run side by side, in as many queues as the device has.
12. Axes of a phase that work on different pieces start each piece. What one device sends to all is a broadcast.
   Programs that touch far more than the cache read their sources from the memory. Large outputs that the operating
   system allocates anew take its time.
13. Measurements of groups over two axes say what the exchange on the slow one takes, alone or beside others. Where the
   host launches kernels one by one, classes that say nothing of it take its time too.
14. A gated activation takes no longer than the activation and the product by themselves. An all-reduce that follows
   from other measurements, or is among two, takes no longer than both its halves. What is not measured between hosts
   takes no less than within one. No inherited kernel takes longer to launch in half precision.
"""

from __future__ import annotations

COST_MODEL_VERSION = 14
UNVERSIONED = 1  # the version of costs that name none


def cost_model_note(version: int) -> str | None:
    """Return the note on costs of another version of the model; None for those of this one."""
    if version == COST_MODEL_VERSION:
        return None
    age = "an older" if version < COST_MODEL_VERSION else "a newer"
    return f"costed by {age} model ({version}; this is {COST_MODEL_VERSION})"
