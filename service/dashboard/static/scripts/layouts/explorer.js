/**
 * A tensor and the memory that it lies in, beside each other: what is pointed at in one is marked in the other.
 * @module layouts/explorer
 */

import { saveMenu } from "../charts/saving.js";
import { byId, fill, say } from "../dom.js";
import { plain, several } from "../units.js";
import { CellGrid } from "./cell-grid.js";
import { indexText, LayoutMap } from "./layout-map.js";

const IDLE = "Point at a cell, or go from cell to cell by the arrow keys. Enter or a click keeps it in the address.";
const WIDTHS = [4, 8, 16, 32, 64, 128];
const USUAL_WIDTH = 16;
const MOST_USUAL = 32;
const THIN = 1;

/** Both drawings, the line that says what is pointed at, and the width of the rows of memory. */
export class Explorer {
  /** @param {(pinned: {at?: number[], offset?: number}) => void} onPin with what was clicked */
  constructor(onPin) {
    /** @type {LayoutMap | null} */
    this.map = null;
    /** What was clicked: a cell of one of both. @type {{isSlot: boolean, cell: number} | null} */
    this.pinned = null;
    this.onPin = onPin;
    this.tensor = new CellGrid(byId("tensor-cells"), "The tensor: the slot of each element", {
      onPoint: (cell) => this.#pointed(false, cell),
      onPin: (cell) => this.#pin(false, cell),
    });
    this.memory = new CellGrid(byId("memory-cells"), "The memory: the element in each slot", {
      onPoint: (cell) => this.#pointed(true, cell),
      onPin: (cell) => this.#pin(true, cell),
    });
    byId("row-width").addEventListener("change", () => this.#showMemory());
    for (const [id, grid] of /** @type {[string, CellGrid][]} */ ([["tensor", this.tensor], ["memory", this.memory]])) {
      byId(`${id}-larger`).addEventListener("click", () => grid.zoomBy(1));
      byId(`${id}-smaller`).addEventListener("click", () => grid.zoomBy(-1));
    }
    fill(byId("tensor-save"), saveMenu(this.tensor, () => "layout-tensor", () => this.#tensorRows()));
    fill(byId("memory-save"), saveMenu(this.memory, () => "layout-memory", () => this.#memoryRows()));
  }

  /** @param {any} document of `/v1/layouts/map` @param {{at?: number[], offset?: number}} pinned what is marked at first */
  show(document, { at, offset }) {
    this.map = new LayoutMap(document);
    this.pinned = null;
    const { physical_shape: physical, buffer_elements: size } = document;
    const usual = usualWidth(physical, size);
    const widths = [...new Set([...WIDTHS.filter((width) => width <= Math.max(size, 4)), usual])].sort((a, b) => a - b);
    fill(byId("row-width"), widths.map((width) => new Option(`${plain(width)} slots a row`, String(width), false, width === usual)));
    this.#showTensor();
    this.#showMemory();
    const element = at ? this.map.element(at) : -1;
    if (element >= 0) this.#keep(false, element);
    else if (offset !== undefined && offset < this.map.slots.length) this.#keep(true, offset);
    this.#rest();
  }

  #showTensor() {
    const map = /** @type {LayoutMap} */ (this.map);
    const { above, left, buffer_elements: size } = map.document;
    const [height, width] = [1, 1, ...map.shape].slice(-2);
    const matrix = height * width;
    const count = map.elements.length;
    const blocks = Array.from({ length: matrix ? count / matrix : 0 }, (_, k) => ({
      title: map.shape.length > 2 ? `[${map.index(k * matrix).slice(0, -2).join(", ")}, :, :]` : "",
      first: k * matrix,
      count: matrix,
      width,
    }));
    this.tensor.show({
      blocks,
      text: (cell) => String(map.elements[cell] % size),
      hue: (cell) => Math.floor(map.elements[cell] / size),
      above: (cell) => above[cell],
      left: (cell) => left[cell],
      longest: String(Math.max(0, size - 1)).length,
    });
    this.tensor.describe(`The tensor of shape ${indexText(map.shape)}: the slot of each element. Arrow keys go from element to element`);
    say(byId("tensor-note"), `${several(count, "element")}; numbers are slots${map.document.buffer_count > 1 ? " of the buffer of that color" : ""}; lines are borders of tiles and buffers.`);
  }

  #showMemory() {
    if (!this.map) return;
    const map = this.map;
    const { buffer_count: buffers, buffer_elements: size, buffer_names: names } = map.document;
    const width = Number(byId("row-width").value);
    const blocks = Array.from({ length: buffers }, (_, k) => ({
      title: buffers > 1 ? names[k] : "",
      first: k * size,
      count: size,
      width,
    }));
    const last = map.shape.map((extent) => Math.max(0, extent - 1)).join(",");
    this.memory.show({
      blocks,
      text: (cell) => this.#content(cell),
      hue: (cell) => (map.elementsOf(cell).length ? Math.floor(cell / size) : -1),
      above: () => 0,
      left: (cell) => (cell % width && isStep(map, cell) ? THIN : 0),
      longest: Math.max(3, last.length),
    });
    const padding = map.slots.reduce((sum, _, slot) => sum + Number(map.elementsOf(slot).length === 0), 0);
    this.memory.describe(`The memory of ${several(buffers, "buffer")} of ${several(size, "slot")}: the element in each. Arrow keys go from slot to slot`);
    say(byId("memory-note"), `${several(map.slots.length, "slot")}, ${padding ? `${plain(padding)} of them padding (a dot)` : "no padding"}; numbers are indices of elements.`);
    this.#rest();
  }

  /** The text in a slot. @param {number} slot */
  #content(slot) {
    const map = /** @type {LayoutMap} */ (this.map);
    const found = map.elementsOf(slot);
    if (!found.length) return "·";
    return found.length > 1 ? `${found.length} ×` : map.index(found[0]).join(",");
  }

  /** @param {boolean} isSlot @param {number} cell */
  #pointed(isSlot, cell) {
    if (cell < 0) return this.#rest();
    this.#mark(isSlot, cell);
  }

  /** Mark a cell of one, and what belongs to it in the other; say what it is. @param {boolean} isSlot @param {number} cell */
  #mark(isSlot, cell) {
    const map = /** @type {LayoutMap} */ (this.map);
    const others = isSlot ? map.elementsOf(cell) : map.slotsOf(cell);
    const [own, other] = isSlot ? [this.memory, this.tensor] : [this.tensor, this.memory];
    own.point(cell);
    own.mark(isSlot ? [] : others.length === 1 ? map.elementsOf(others[0]).filter((one) => one !== cell) : [], false);
    other.point(-1);
    other.mark(others, true);
    say(byId("place"), isSlot ? map.slotText(cell) : map.elementText(cell));
  }

  /** What stays when nothing is pointed at: what was clicked, or nothing. */
  #rest() {
    if (this.pinned) return this.#mark(this.pinned.isSlot, this.pinned.cell);
    for (const grid of [this.tensor, this.memory]) {
      grid.point(-1);
      grid.mark([], false);
    }
    say(byId("place"), IDLE);
  }

  /** @param {boolean} isSlot @param {number} cell */
  #keep(isSlot, cell) {
    this.pinned = { isSlot, cell };
    (isSlot ? this.memory : this.tensor).reveal(cell);
  }

  /** @param {boolean} isSlot @param {number} cell */
  #pin(isSlot, cell) {
    const isSame = this.pinned?.isSlot === isSlot && this.pinned.cell === cell;
    this.pinned = isSame ? null : { isSlot, cell };
    const map = /** @type {LayoutMap} */ (this.map);
    this.onPin(isSame ? {} : isSlot ? { offset: cell } : { at: map.index(cell) });
  }

  #tensorRows() {
    const map = /** @type {LayoutMap} */ (this.map);
    const names = map.shape.map((_, k) => `index ${k}`);
    return [
      [...names, "offset (slots)", "buffer", "slot", "byte"],
      ...map.elements.map((offset, element) => {
        const [buffer, slot] = map.place(offset);
        return [...map.index(element), offset, map.document.buffer_names[buffer], slot, map.byte(slot) ?? ""];
      }),
    ];
  }

  #memoryRows() {
    const map = /** @type {LayoutMap} */ (this.map);
    return [
      ["offset (slots)", "buffer", "slot", "byte", "elements"],
      ...map.slots.map((_, offset) => {
        const [buffer, slot] = map.place(offset);
        const found = map.elementsOf(offset).map((element) => indexText(map.index(element)));
        return [offset, map.document.buffer_names[buffer], slot, map.byte(slot) ?? "", found.join(" ") || "padding"];
      }),
    ];
  }
}

/** How many slots stand in a row at first: a tile, where one is short. @param {number[]} physical shape @param {number} size of a buffer */
function usualWidth(physical, size) {
  let width = 1;
  for (const extent of [...physical].reverse()) {
    width *= extent;
    if (width >= WIDTHS[0]) break;
  }
  return width >= WIDTHS[0] && width < size && width <= MOST_USUAL ? width : Math.min(size, USUAL_WIDTH);
}

/** Whether a slot goes on elsewhere in the tensor than right behind the slot before. @param {LayoutMap} map @param {number} slot */
function isStep(map, slot) {
  const [before, here] = [map.slots[slot - 1], map.slots[slot]];
  return before >= 0 !== here >= 0 || (here >= 0 && Math.abs(here - before) !== stepOf(map));
}

/** The distance of the elements of most neighboring slots. @type {WeakMap<LayoutMap, number>} */
const steps = new WeakMap();

/** @param {LayoutMap} map */
function stepOf(map) {
  const known = steps.get(map);
  if (known !== undefined) return known;
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (let slot = 1; slot < map.slots.length; slot += 1) {
    if (map.slots[slot] < 0 || map.slots[slot - 1] < 0) continue;
    const step = Math.abs(map.slots[slot] - map.slots[slot - 1]);
    counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  const [found] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? [1];
  steps.set(map, found);
  return found;
}
