"""`tapestry import`: a summary of a program, and its TEG document."""

from __future__ import annotations

from argparse import Namespace

from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import in_precision, read_graph, write_graph
from tapestry.service.graphs import GraphSummary, SourceSummary, summarize
from tapestry.service.storage import storage_document, storage_text
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Read a program, write it if requested, and print a summary."""
    graph = given = read_graph(arguments.graph, arguments.dim, arguments.external_data)
    if arguments.dtype is not None:
        graph = in_precision(given, arguments.dtype)
    if arguments.output is not None:
        write_graph(graph, arguments.output)
    summary = summarize(graph)
    stored = None if arguments.dtype is None else storage_document(given, graph, arguments.dtype)
    if arguments.json:
        more = {"structural_hash": graph.structural_hash, "output": arguments.output, "stored": stored}
        print_json({**summary.to_json(), **more})
        return OK
    _print(summary)
    if stored is not None:
        print(f"\n{storage_text(stored)}")
    if arguments.output is not None:
        print(f"\nwritten to {arguments.output}")
    return OK


def _print(summary: GraphSummary) -> None:
    print(f"{summary.name}: {counted(summary.blocks, 'block')} over {counted(summary.tensors, 'tensor')}")
    size = quantity(summary.parameter_bytes, "B")
    print(f"parameters       {summary.parameters:,} ({size})")
    print(f"work             {quantity(summary.flops, 'flop')}")
    print(
        f"can be sharded   {summary.shardable_share:.1%} of the work; "
        f"fixed blocks: {summary.fixed_blocks:,} of {summary.blocks:,}"
    )
    print(
        f"structure        {counted(summary.layers, 'layer')}, {counted(summary.components, 'separate part')}, "
        f"{counted(len(summary.bottlenecks), 'block')} on every path"
    )
    if summary.is_explicit:
        reported = summary.shards or {}
        proof = {True: "proven", False: "NOT proven", None: "not tried"}[reported.get("verified")]
        print(f"already sharded  over {counted(reported.get('devices', 0), 'device')}; sharding {proof}")
    if summary.unobserved:
        print(f"unobserved       {counted(summary.unobserved, 'block')} that a search leaves out")
    for resource, amount in summary.named_costs.items():
        print(f"costs            {amount} {resource}")
    print(f"outputs          {', '.join(summary.sinks)}\n")
    print_table(("operator", "blocks"), [(name, str(n)) for name, n in summary.operators.items()], right=(1,))
    print()
    rows = [(s.site, s.role, s.dtype, _shape(s)) for s in summary.sources]
    print_table(("source", "role", "type", "shape"), rows)


def _shape(source: SourceSummary) -> str:
    own = str(list(source.logical_shape))
    return f"{own} as {list(source.shape)}" if source.is_factored else own
