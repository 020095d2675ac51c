"""In-place rules: a new value takes the storage of the old one. One topic per file, combined here.

Much of this is a property of plans and needs no rule:

| compiler term | counterpart here |
| --- | --- |
| donation of an input | a source whose next value a sink takes (`carries`) is freed after its last reader |
| updates right behind their gradients | schedule order `update-early` (`set_option order`), which the search tries |
| copies into state, or of it | gone by `identity_view`, `copy_of_state`, `identity_reshape`, `concat_of_one` |
| reading what was just written | `slice_of_concat`: a slice of a joined update is the update |

The rules here avoid temporaries of the size of the whole where a part changes.
"""
