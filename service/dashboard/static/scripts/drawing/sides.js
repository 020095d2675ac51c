/**
 * A program before and after rewriting as one drawing: what stayed has one node for both, so it has one place.
 * @module drawing/sides
 */

import { plain, several } from "../units.js";
import { face } from "./diagram.js";

/** @typedef {import("./visible.js").Drawing} Drawing */
/** @typedef {import("./visible.js").Visible} Visible */
/** @typedef {import("./visible.js").VisibleNode} VisibleNode */
/** @typedef {import("./painter.js").Face} Face */
/** @typedef {import("./painter.js").Picture} Picture */
/** @typedef {"kept" | "changed" | "removed" | "made"} Change */
/** @typedef {{before: Drawing, after: Drawing, blocks: {before: number[], after: number[], change: Change[], what: string[][],
 *   attributes: [string, string, string][][], rules: number[][], group: number[]}, groups: {name: string[], parent: number[]}, rules: string[], moves: number,
 *   counts: Record<Change, number>}} Changes */

/** Bits of what is on a side. */
const BEFORE = 1;
const AFTER = 2;

/** The two drawings as one, whose blocks are the rows of both. @param {Changes} changes @returns {Drawing} */
function joinedDrawing({ before, after, blocks, groups }) {
  const rows = blocks.change.map((_, row) => [blocks.before[row], blocks.after[row]]);
  const pick = (/** @type {(drawing: Drawing, block: number) => any} */ read) =>
    rows.map(([old, now]) => (now >= 0 ? read(after, now) : read(before, old)));
  const [first, count] = [after.operators.length, after.types.length];
  return {
    name: after.name,
    operators: [...after.operators, ...before.operators],
    types: [...after.types, ...before.types],
    blocks: {
      site: pick((side, k) => side.blocks.site[k]),
      operator: pick((side, k) => side.blocks.operator[k] + (side === after ? 0 : first)),
      kind: pick((side, k) => side.blocks.kind[k]),
      type: pick((side, k) => side.blocks.type[k] + (side === after ? 0 : count)),
      flops: pick((side, k) => side.blocks.flops[k]),
      bytes: pick((side, k) => side.blocks.bytes[k]),
      group: blocks.group,
      also: blocks.before.map((k) => (k < 0 ? "" : `${before.blocks.site[k]} ${before.operators[before.blocks.operator[k]]}`)),
    },
    edges: joinedEdges(before, after, blocks),
    groups,
  };
}

/** Edges of both sides between rows, each once. @param {Drawing} before @param {Drawing} after @param {Changes["blocks"]} blocks */
function joinedEdges(before, after, blocks) {
  const known = new Map();
  const edges = { from: /** @type {number[]} */ ([]), to: /** @type {number[]} */ ([]), bytes: /** @type {number[]} */ ([]) };
  for (const [side, column] of /** @type {[Drawing, number[]][]} */ ([[after, blocks.after], [before, blocks.before]])) {
    const rowOf = rowsOf(side, column);
    side.edges.from.forEach((from, k) => {
      const [a, b] = [rowOf[from], rowOf[side.edges.to[k]]];
      const key = a * column.length + b;
      if (known.has(key)) return;
      known.set(key, edges.from.length);
      edges.from.push(a);
      edges.to.push(b);
      edges.bytes.push(side.edges.bytes[k]);
    });
  }
  return edges;
}

/** The row of each block of a side. @param {Drawing} side @param {number[]} column */
function rowsOf(side, column) {
  const rows = new Int32Array(side.blocks.site.length);
  column.forEach((block, row) => {
    if (block >= 0) rows[block] = row;
  });
  return rows;
}

/** Both sides of changes, as a diagram shows them. */
export class BothSides {
  /** @param {Changes} changes */
  constructor(changes) {
    this.changes = changes;
    this.drawing = joinedDrawing(changes);
    const { before, after } = changes.blocks;
    /** The drawing with the blocks as each side has them; where it has none, as the other has them. */
    this.drawings = [
      { ...this.drawing, ...facesOf(this.drawing, changes.before, before, changes.after.operators.length) },
      this.drawing,
    ];
    this.edges = [changes.before, changes.after].map((side, k) => [side, rowsOf(side, [before, after][k])]);
  }

  /** Count the changes in each node, and on which sides nodes and edges are. @param {Visible} view */
  arranged({ nodes, nodeOf, from, to }) {
    const { change } = this.changes.blocks;
    /** @type {Record<Change, number>[]} */
    this.counts = nodes.map(() => ({ kept: 0, changed: 0, removed: 0, made: 0 }));
    change.forEach((kind, row) => {
      this.counts[nodeOf[row]][kind] += 1;
    });
    this.onSides = Uint8Array.from(this.counts, ({ kept, changed, removed, made }) =>
      kept + changed ? BEFORE | AFTER : (removed && BEFORE) | (made && AFTER),
    );
    const known = new Map();
    from.forEach((a, k) => known.set(a * nodes.length + to[k], k));
    this.edgeSides = new Uint8Array(from.length);
    this.edges.forEach(([side, rowOf], k) => {
      side.edges.from.forEach((/** @type {number} */ a, /** @type {number} */ n) => {
        const edge = known.get(nodeOf[rowOf[a]] * nodes.length + nodeOf[rowOf[side.edges.to[n]]]);
        if (edge !== undefined) this.edgeSides[edge] |= k === 0 ? BEFORE : AFTER;
      });
    });
  }

  /** @param {VisibleNode} node @param {number} number @returns {Face[]} */
  faces(node, number) {
    const counts = this.counts[number];
    const own = this.drawings.map((drawing) => face(drawing, node));
    if (node.block < 0) {
      own[0].text = groupText(counts, "removed", "removed");
      own[1].text = groupText(counts, "made", "new");
    }
    own[0].mark = markOf(counts, "removed");
    own[1].mark = markOf(counts, "made");
    return own;
  }

  /** Each side with the places of the whole. @param {Picture} picture @param {Visible} _view @param {Face[][]} faces @returns {Picture[]} */
  pictures(picture, _view, faces) {
    return [BEFORE, AFTER].map((bit, side) => {
      const { layout } = picture;
      const shown = Uint8Array.from(this.onSides, (on) => on & bit);
      const isOn = (/** @type {number} */ edge) => (this.edgeSides[edge] & bit) !== 0;
      const pick = (/** @type {Int32Array} */ ends) => ends.filter((_, edge) => isOn(edge));
      return {
        ...picture,
        shown,
        faces: faces.map((own) => own[side]),
        layout: {
          ...layout,
          rows: layout.rows.map((members) => members.filter((item) => item >= shown.length || shown[item])),
          routes: layout.routes.filter((_, edge) => isOn(edge)),
        },
        from: pick(picture.from),
        to: pick(picture.to),
        bytes: picture.bytes.filter((_, edge) => isOn(edge)),
        traffic: picture.traffic.filter((_, edge) => isOn(edge)),
        moved: picture.moved.filter((_, edge) => isOn(edge)),
      };
    });
  }
}

/** The columns of blocks that faces read, as the earlier program has them. @param {Drawing} joined @param {Drawing} before
 * @param {number[]} column @param {number} first of its operators among all */
function facesOf(joined, before, column, first) {
  const { site, operator, kind } = joined.blocks;
  return {
    blocks: {
      ...joined.blocks,
      site: site.map((name, row) => (column[row] >= 0 ? before.blocks.site[column[row]] : name)),
      operator: operator.map((name, row) => (column[row] >= 0 ? before.blocks.operator[column[row]] + first : name)),
      kind: kind.map((name, row) => (column[row] >= 0 ? before.blocks.kind[column[row]] : name)),
    },
  };
}

/** What a group has on a side. @param {Record<Change, number>} counts @param {"removed" | "made"} alone @param {string} name */
function groupText(counts, alone, name) {
  const parts = [counts.changed && `${plain(counts.changed)} changed`, counts[alone] && `${plain(counts[alone])} ${name}`];
  const all = several(counts.kept + counts.changed + counts[alone], "block");
  return [all, parts.filter(Boolean).join(", ")].filter(Boolean).join(": ");
}

/** What happened to a node: all of it is on one side only, or some of it differs. @param {Record<Change, number>} counts
 * @param {"removed" | "made"} alone */
function markOf({ kept, changed, removed, made }, alone) {
  if (kept + changed === 0 && removed + made === (alone === "removed" ? removed : made)) return alone;
  return changed + removed + made ? "changed" : "kept";
}
