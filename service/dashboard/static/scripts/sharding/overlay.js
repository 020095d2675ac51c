/**
 * What the diagram of a plan's program shows of its sharding: traffic of edges, costs and stages of blocks.
 * @module sharding/overlay
 */

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {import("../drawing/visible.js").Drawing} Drawing */

/**
 * Add the columns to those of a drawing, whose blocks have the same numbers. Traffic is that of redistributions, at the
 * edge to the reader that made each necessary; `moved` are all edges on which something is redistributed.
 * @param {Drawing} drawing @param {Columns} columns
 */
export function withSharding(drawing, columns) {
  const { blocks, reads, moved, tensors } = columns;
  const edges = new Map(drawing.edges.from.map((from, k) => [`${from} ${drawing.edges.to[k]}`, k]));
  const traffic = drawing.edges.from.map(() => 0);
  const moves = drawing.edges.from.map(() => false);
  const received = blocks.site.map(() => 0);
  reads.redistribution.forEach((/** @type {number} */ number, /** @type {number} */ read) => {
    if (number < 0) return;
    const from = reads.through[read] >= 0 ? reads.through[read] : tensors.block[reads.tensor[read]];
    const edge = edges.get(`${from} ${reads.block[read]}`);
    const isFirst = moved.reader[number] === reads.block[read] && moved.position[number] === reads.position[read];
    if (isFirst) received[reads.block[read]] += moved.bytes[number];
    if (edge === undefined) return;
    moves[edge] = true;
    if (isFirst) traffic[edge] += moved.bytes[number];
  });
  Object.assign(drawing.edges, { traffic, moved: moves });
  Object.assign(drawing.blocks, {
    seconds: blocks.seconds,
    energy: blocks.energy_j.includes(null) ? undefined : blocks.energy_j,
    received,
    memory: blocks.site.map((/** @type {string} */ _, /** @type {number} */ block) =>
      columns.madeBy[block].reduce((sum, tensor) => sum + tensors.device_bytes[tensor], 0),
    ),
    split: blocks.strategy.map((/** @type {number} */ number) => splitText(columns, number)),
    stage: columns.mesh.stages > 1 ? blocks.stage.map((/** @type {number} */ stage) => `stage ${stage}`) : undefined,
  });
  return drawing;
}

/** The mesh axes that a strategy uses. @param {Columns} columns @param {number} number */
function splitText(columns, number) {
  if (number < 0) return "";
  const names = columns.axisNames(columns.strategies[number].axes.flat());
  return names.length ? `split over ${names.join(" and ")}` : "repeated on all devices";
}
