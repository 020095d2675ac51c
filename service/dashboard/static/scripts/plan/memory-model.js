/**
 * What lives in the memory of a class of devices over time, from the columns that the API has.
 * @module plan/memory-model
 */

import { lastUpTo } from "../charts/ordered.js";

/** @typedef {{buffer: string, tensor: any, role: string, bytes: number, from: string, to: string}} Living */

/** One class of devices. Samples are those of the API: before the first slot, and two of each slot. */
export class MemoryCurve {
  /** @param {any} document of a plan's memory @param {number} which class */
  constructor(document, which) {
    this.document = document;
    this.own = document.classes[which];
    const { first, end, role, bytes } = document.allocations;
    this.bytes = bytes[which];
    this.slots = document.slots.block.length;
    const samples = 1 + 2 * this.slots;
    this.times = new Float64Array(samples);
    for (let k = 0; k < this.slots; k += 1) {
      this.times[2 * k + 1] = this.own.start_s[k];
      this.times[2 * k + 2] = this.own.block_s[k];
    }
    /** Live bytes per role. @type {Float64Array[]} */
    this.roles = document.roles.map(() => new Float64Array(samples));
    for (let k = 0; k < this.bytes.length; k += 1) {
      this.roles[role[k]][first[k]] += this.bytes[k];
      if (end[k] < samples) this.roles[role[k]][end[k]] -= this.bytes[k];
    }
    for (const curve of this.roles) for (let k = 1; k < samples; k += 1) curve[k] += curve[k - 1];
  }

  /** The sample that is reached at a moment: of equal times, the one with the most bytes. @param {number} time s */
  sampleAt(time) {
    const last = Math.max(0, lastUpTo(this.times, time));
    let most = last;
    for (let k = last; k >= 0 && this.times[k] === this.times[last]; k -= 1)
      if (this.total(k) > this.total(most)) most = k;
    return most;
  }

  /** All bytes that live at a sample. @param {number} sample */
  total(sample) {
    return this.roles.reduce((sum, curve) => sum + curve[sample], 0);
  }

  /** Where a sample is, in words. @param {number} sample */
  place(sample) {
    if (sample === 0) return "before the first block";
    const slot = (sample - 1) >> 1;
    const round = this.document.slots.round.some((/** @type {number} */ number) => number > 0)
      ? ` in round ${this.document.slots.round[slot]}`
      : "";
    return `${sample % 2 ? "as copies begin before" : "in"} ${this.#block(slot)}${round}`;
  }

  /** What lives at a sample, the largest first. @param {number} sample @returns {Living[]} */
  living(sample) {
    const { first, end, role, tensor, tensors, buffer } = this.document.allocations;
    /** @type {Living[]} */
    const found = [];
    for (let k = 0; k < this.bytes.length; k += 1) {
      if (first[k] > sample || end[k] <= sample || !this.bytes[k]) continue;
      found.push({
        buffer: buffer[k],
        tensor: tensors[tensor[k]],
        role: this.document.roles[role[k]],
        bytes: this.bytes[k],
        from: first[k] === 0 ? "the start" : this.#block((first[k] - 1) >> 1),
        to: end[k] > 2 * this.slots ? "the end" : this.#block((end[k] - 2) >> 1),
      });
    }
    return found.sort((a, b) => b.bytes - a.bytes || (a.buffer < b.buffer ? -1 : 1));
  }

  /** @param {number} slot */
  #block(slot) {
    return this.document.blocks[this.document.slots.block[Math.max(0, Math.min(slot, this.slots - 1))]];
  }
}
