/**
 * Which slots of memory each element of a layout has, and which elements each slot.
 * @module layouts/layout-map
 */

const NONE = -1;

/** A document of `/v1/layouts/map`, looked at from both sides. */
export class LayoutMap {
  /** @param {any} document */
  constructor(document) {
    this.document = document;
    /** @type {number[]} */
    this.shape = document.shape;
    /** @type {number[]} */
    this.elements = document.elements;
    /** @type {number[]} */
    this.slots = document.slots;
    this.slotsOf = grouped(this.elements.length, this.slots, this.elements);
    this.elementsOf = grouped(this.slots.length, this.elements, this.slots);
  }

  /** The index of an element. @param {number} element @returns {number[]} */
  index(element) {
    const index = [];
    for (const size of [...this.shape].reverse()) {
      index.unshift(element % size);
      element = Math.floor(element / size);
    }
    return index;
  }

  /** The number of the element at an index, -1 where there is none. @param {number[]} index */
  element(index) {
    if (index.length !== this.shape.length || index.some((at, k) => !(at >= 0 && at < this.shape[k]))) return NONE;
    return index.reduce((number, at, k) => number * this.shape[k] + at, 0);
  }

  /** The buffer of an offset and the slot in it. @param {number} offset @returns {[number, number]} */
  place(offset) {
    const { buffer_elements: size } = this.document;
    return [Math.floor(offset / size), offset % size];
  }

  /** Where an offset is, in words. @param {number} offset */
  placeText(offset) {
    const [buffer, slot] = this.place(offset);
    const where = `offset ${offset}: ${this.document.buffer_names[buffer]}, slot ${slot}`;
    return `${where}${this.#byteText(slot)}`;
  }

  /** @param {number} slot */
  #byteText(slot) {
    const byte = this.byte(slot);
    if (byte === null) return "";
    const bit = (slot * this.document.element_bits) % 8;
    return `, byte ${byte}${this.document.element_bits % 8 ? `, bit ${bit}` : ""}`;
  }

  /** The byte of its buffer at which a slot begins; null where elements share exponents. @param {number} slot */
  byte(slot) {
    const bits = this.document.element_bits;
    return bits === null ? null : Math.floor((slot * bits) / 8);
  }

  /** What is said of an element. @param {number} element */
  elementText(element) {
    const offsets = this.slotsOf(element);
    const index = indexText(this.index(element));
    if (!offsets.length) return `Element ${index} is in no slot.`;
    const others = offsets.length === 1 ? this.elementsOf(offsets[0]).filter((one) => one !== element) : [];
    const shared = others.length ? ` It shares this slot with ${listed(others.map((one) => indexText(this.index(one))))}.` : "";
    return `Element ${index} is at ${listed(offsets.map((offset) => this.placeText(offset)), "; ")}.${shared}`;
  }

  /** What is said of a slot. @param {number} offset */
  slotText(offset) {
    const found = this.elementsOf(offset).map((element) => indexText(this.index(element)));
    const what = !found.length ? "padding" : found.length === 1 ? `element ${found[0]}` : `${found.length} elements: ${listed(found)}`;
    return `${capital(this.placeText(offset))} has ${what}.`;
  }
}

/** @param {number[]} index */
export function indexText(index) {
  return `[${index.join(", ")}]`;
}

const MOST_NAMED = 8;

/** @param {string[]} texts @param {string} [between] */
function listed(texts, between = ", ") {
  const rest = texts.length - MOST_NAMED;
  return rest > 0 ? `${texts.slice(0, MOST_NAMED).join(between)} and ${rest} more` : texts.join(between);
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * For each of so many things those that one list leads from or the other leads to, as a function.
 * @param {number} count @param {number[]} from the thing that each of the others leads to, -1 for none
 * @param {number[]} to the other that each thing leads to, -1 for none
 * @returns {(thing: number) => number[]} in ascending order, each once
 */
function grouped(count, from, to) {
  const first = new Int32Array(count).fill(NONE);
  const next = new Int32Array(from.length).fill(NONE);
  for (let other = from.length - 1; other >= 0; other -= 1) {
    const thing = from[other];
    if (thing < 0) continue;
    next[other] = first[thing];
    first[thing] = other;
  }
  return (thing) => {
    const found = [];
    for (let other = first[thing]; other >= 0; other = next[other]) found.push(other);
    const own = to[thing];
    return own < 0 || found.includes(own) ? found : [...found, own].sort((a, b) => a - b);
  };
}
