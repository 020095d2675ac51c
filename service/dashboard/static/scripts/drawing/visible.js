/**
 * What of a program is shown: a node for each block and each group that is closed, and the edges between them.
 * @module drawing/visible
 */

/** @typedef {{name: string, operators: string[], types: string[],
 *   blocks: {site: string[], operator: number[], kind: string[], type: number[], flops: number[], bytes: number[],
 *     group: number[], also?: string[], seconds?: number[], energy?: number[], received?: number[], memory?: number[],
 *     split?: string[], stage?: string[]},
 *   edges: {from: number[], to: number[], bytes: number[], traffic?: number[], moved?: boolean[]},
 *   groups: {name: string[], parent: number[]}}} Drawing */

/** @typedef {{block: number, group: number, blocks: number, held: number, flops: number, bytes: number, seconds: number,
 *   energy: number, received: number, memory: number, within: number, split: string, stage: string}} VisibleNode
 *   a block, or else a group; how many blocks it stands for; parameters that are shown in their reader; of a plan also the
 *   seconds and the energy (J) of the blocks, the bytes that they receive and that their results take of a
 *   device, the bytes redistributed on edges that are within the node, and over what its blocks are split, and where, if
 *   that is one for all */

/** @typedef {{nodes: VisibleNode[], nodeOf: Int32Array, from: Int32Array, to: Int32Array, bytes: Float64Array,
 *   traffic: Float64Array, moved: Uint8Array, most: number}} Visible `most` is the largest traffic of an edge of the whole
 *   drawing */

/** Kinds of sources that are shown within the one block that reads them. */
const HELD = new Set(["parameter", "constant"]);

/** Of a group whose blocks are not alike. */
const DIFFERENT = "different ones";

/**
 * @param {Drawing} drawing
 * @param {Set<number>} open numbers of groups
 * @param {boolean} parameters whether those get nodes of their own
 * @returns {Visible}
 */
export function visible(drawing, open, parameters = false) {
  const { site, kind, group, flops, bytes, seconds, energy, received, memory, split, stage } = drawing.blocks;
  const readers = parameters ? null : onlyReaders(drawing);
  /** @type {VisibleNode[]} */
  const nodes = [];
  const ofGroup = new Map();
  const nodeOf = new Int32Array(site.length).fill(-1);
  for (let block = 0; block < site.length; block += 1) {
    if (isHeld(block)) continue;
    const closed = outermostClosed(drawing, group[block], open);
    let node = closed < 0 ? undefined : ofGroup.get(closed);
    if (node === undefined) {
      node = nodes.length;
      nodes.push({
        ...{ block: closed < 0 ? block : -1, group: closed, blocks: 0, held: 0, flops: 0, bytes: 0 },
        ...{ seconds: 0, energy: 0, received: 0, memory: 0, within: 0, split: split?.[block] ?? "", stage: stage?.[block] ?? "" },
      });
      if (closed >= 0) ofGroup.set(closed, node);
    }
    nodeOf[block] = node;
    nodes[node].blocks += 1;
    nodes[node].flops += flops[block];
    nodes[node].bytes += bytes[block];
    nodes[node].seconds += seconds?.[block] ?? 0;
    nodes[node].energy += energy?.[block] ?? 0;
    nodes[node].received += received?.[block] ?? 0;
    nodes[node].memory += memory?.[block] ?? 0;
    nodes[node].split ||= split?.[block] ?? ""; // views have none
    if (split?.[block] && nodes[node].split !== split[block]) nodes[node].split = DIFFERENT;
    if (stage && nodes[node].stage !== stage[block]) nodes[node].stage = DIFFERENT;
  }
  for (let block = 0; block < site.length; block += 1) {
    if (!isHeld(block)) continue;
    nodeOf[block] = nodeOf[/** @type {Int32Array} */ (readers)[block]];
    nodes[nodeOf[block]].held += 1;
  }
  drawing.edges.traffic?.forEach((moved, k) => {
    const node = nodeOf[drawing.edges.from[k]];
    if (node === nodeOf[drawing.edges.to[k]]) nodes[node].within += moved;
  });
  const most = (drawing.edges.traffic ?? []).reduce((found, moved) => Math.max(found, moved), 0);
  return { nodes, nodeOf, ...joined(drawing, nodeOf, nodes.length), most };

  /** @param {number} block */
  function isHeld(block) {
    return readers !== null && readers[block] >= 0 && HELD.has(kind[block]);
  }
}

/** The groups around a group, the innermost first. @param {Drawing} drawing @param {number} group */
export function around(drawing, group) {
  const found = [];
  for (let at = group; at >= 0; at = drawing.groups.parent[at]) found.push(at);
  return found;
}

/** @param {Drawing} drawing @param {number} group @param {Set<number>} open */
function outermostClosed(drawing, group, open) {
  let found = -1;
  for (let at = group; at >= 0; at = drawing.groups.parent[at]) if (!open.has(at)) found = at;
  return found;
}

/** The only reader of what each block makes; -1 where it has none or several. @param {Drawing} drawing */
function onlyReaders({ blocks, edges }) {
  const found = new Int32Array(blocks.site.length).fill(-2);
  edges.from.forEach((from, k) => {
    found[from] = found[from] === -2 ? edges.to[k] : -1;
  });
  return found.map((reader) => Math.max(reader, -1));
}

/** Edges between nodes, each pair once. @param {Drawing} drawing @param {Int32Array} nodeOf @param {number} count */
function joined({ edges }, nodeOf, count) {
  const known = new Map();
  const from = [];
  const to = [];
  const bytes = [];
  const traffic = [];
  const moved = [];
  for (let k = 0; k < edges.from.length; k += 1) {
    const a = nodeOf[edges.from[k]];
    const b = nodeOf[edges.to[k]];
    if (a === b) continue;
    const key = a * count + b;
    const edge = known.get(key);
    if (edge === undefined) {
      known.set(key, from.length);
      from.push(a);
      to.push(b);
      bytes.push(edges.bytes[k]);
      traffic.push(edges.traffic?.[k] ?? 0);
      moved.push(edges.moved?.[k] ?? false);
    } else {
      bytes[edge] += edges.bytes[k];
      traffic[edge] += edges.traffic?.[k] ?? 0;
      moved[edge] ||= edges.moved?.[k] ?? false;
    }
  }
  return {
    ...{ from: Int32Array.from(from), to: Int32Array.from(to), bytes: Float64Array.from(bytes) },
    ...{ traffic: Float64Array.from(traffic), moved: Uint8Array.from(moved, Number) },
  };
}
