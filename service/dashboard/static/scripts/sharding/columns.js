/**
 * The sharding of a plan as the service counts it, with what pages ask of its columns.
 * @module sharding/columns
 */

import { orderText, readableSharding } from "../notations.js";

/** @typedef {{text: string, class: string, shape: number[], axes: number[][], granules: number[], windowed: boolean[],
 *   partial: number[], monoid: string | null, replicated: number[], ranges: number[]}} Sharding */
/** @typedef {{name: string, size: number, topology: string, bandwidth_bytes_per_s: number, received_bytes: number[]}} Axis */
/** @typedef {{dims: [string, number, string][], inputs: number[][], outputs: number[][]}} Signature */
/** @typedef {{box: [number, number][], devices: number[]}} Piece a part of a tensor, and the devices of a stage that hold it */

/** The document of `/v1/plans/{id}/sharding`. */
export class Columns {
  /** @param {any} document */
  constructor(document) {
    this.mesh = document.mesh;
    this.blocks = document.blocks;
    this.reads = document.reads;
    this.tensors = document.tensors;
    this.moved = document.redistributions;
    this.exchanges = document.exchanges;
    this.matrix = document.matrix;
    this.totals = document.totals;
    this.rounds = document.rounds;
    this.words = document.words;
    /** @type {string[]} */
    this.operators = document.operators;
    /** @type {Signature[]} */
    this.signatures = document.signatures;
    /** @type {{text: string, axes: number[][]}[]} */
    this.strategies = document.strategies;
    /** @type {Sharding[]} */
    this.shardings = document.shardings;
    /** @type {{bounds: [number, number][], of_device: number[]}[]} */
    this.ranges = document.ranges;
    this.blockOf = new Map(this.blocks.site.map((/** @type {string} */ site, /** @type {number} */ k) => [site, k]));
    this.tensorOf = new Map(this.tensors.name.map((/** @type {string} */ name, /** @type {number} */ k) => [name, k]));
    /** @type {number[][]} */
    this.readsOfTensor = this.tensors.name.map(() => []);
    /** @type {number[][]} */
    this.readsOfBlock = this.blocks.site.map(() => []);
    /** @type {number[][]} */
    this.madeBy = this.blocks.site.map(() => []);
    this.reads.tensor.forEach((/** @type {number} */ tensor, /** @type {number} */ k) => this.readsOfTensor[tensor].push(k));
    this.reads.block.forEach((/** @type {number} */ block, /** @type {number} */ k) => this.readsOfBlock[block].push(k));
    this.tensors.block.forEach((/** @type {number} */ block, /** @type {number} */ k) => this.madeBy[block].push(k));
    /** The axes over which each redistribution moves anything. @type {Set<string>[]} */
    this.axesOfMoved = this.moved.tensor.map(() => new Set());
    this.exchanges.redistribution.forEach((/** @type {number} */ moved, /** @type {number} */ k) =>
      this.axesOfMoved[moved].add(this.exchanges.axis[k]),
    );
  }

  /** How many devices a stage has. */
  get stageDevices() {
    return this.mesh.devices.length / this.mesh.stages;
  }

  /** The mesh axes of sub-axes, the slowest first, each once. @param {number[]} subAxes @returns {number[]} */
  axesOf(subAxes) {
    return [...new Set(subAxes.map((sub) => this.mesh.sub_axes[sub].axis))].sort((a, b) => a - b);
  }

  /** Names of the mesh axes of sub-axes. @param {number[]} subAxes */
  axisNames(subAxes) {
    return this.axesOf(subAxes).map((axis) => this.mesh.axes[axis].name);
  }

  /** How many devices there are along sub-axes. @param {number[]} subAxes */
  sizeOf(subAxes) {
    return subAxes.reduce((product, sub) => product * this.mesh.sub_axes[sub].size, 1);
  }

  /** The parts of a sharding, each once, with the devices of a stage that hold it. @param {number} number @returns {Piece[]} */
  pieces(number) {
    const ranges = this.shardings[number].ranges.map((range) => this.ranges[range]);
    /** @type {Map<string, Piece>} */
    const found = new Map();
    for (let device = 0; device < this.stageDevices; device += 1) {
      const places = ranges.map((range) => range.of_device[device]);
      const key = places.join();
      const piece = found.get(key);
      if (piece) piece.devices.push(device);
      else found.set(key, { box: ranges.map((range, k) => range.bounds[places[k]]), devices: [device] });
    }
    return [...found.values()];
  }

  /** The name of a device that works, by its number in the whole mesh. @param {number} device stage by stage */
  deviceName(device) {
    const places = this.placeOf(device);
    return this.mesh.axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => `${axis.name} ${places[k]}`).join(", ");
  }

  /** Coordinates of a device that works. @param {number} device @returns {number[]} */
  placeOf(device) {
    return this.coordinates(this.mesh.devices[device]);
  }

  /** Coordinates of a device of the whole mesh. @param {number} number @returns {number[]} */
  coordinates(number) {
    const places = [];
    let rest = number;
    for (const { size } of [...this.mesh.axes].reverse()) {
      places.unshift(rest % size);
      rest = Math.floor(rest / size);
    }
    return places;
  }

  /** A text of a sharding or a strategy with whole axes by their names: `gpu` for `gpu.0*gpu.1*gpu.2`. @param {string} text */
  shortened(text) {
    const { axes, sub_axes: subs } = this.mesh;
    return axes.reduce((/** @type {string} */ found, /** @type {Axis} */ axis, /** @type {number} */ k) => {
      const whole = subs.filter((/** @type {any} */ sub) => sub.axis === k).map((/** @type {any} */ sub) => sub.name);
      return whole.length ? found.replaceAll(whole.join("*"), axis.name) : found;
    }, readableSharding(text));
  }

  /** A sharding in short. @param {number} number */
  text(number) {
    return this.shortened(this.shardings[number].text);
  }

  /** What stands for a form in a list: its text, the layout and the stage. @param {number} moved @param {"from" | "to"} end */
  formText(moved, end) {
    const layout = this.moved[`${end}_layout`][moved];
    const stage = this.moved[`${end}_stage`][moved];
    const parts = [this.text(this.moved[end][moved])];
    if (layout) parts.push(orderText(layout));
    if (this.mesh.stages > 1) parts.push(`stage ${stage}`);
    return parts.join(", ");
  }

  /** Names of the dimensions of a tensor, by the block that makes it. @param {number} tensor @returns {string[]} */
  dimNames(tensor) {
    const block = this.tensors.block[tensor];
    const signature = this.signatures[this.blocks.signature[block]];
    const shape = this.shardings[this.tensors.sharding[tensor]].shape;
    const rows = signature?.outputs[this.madeBy[block].indexOf(tensor)] ?? [];
    return shape.map((_, k) => (rows[k] >= 0 ? signature.dims[rows[k]][0] : ""));
  }
}
