/**
 * The mesh: one of the catalog, or a mesh file, whose fields may also be given as JSON.
 * @module mesh-picker
 */

import { get, post } from "./api.js";
import { byId, element, fill, say } from "./dom.js";
import { meshFacts } from "./mesh-facts.js";
import { pairs } from "./pairs.js";
import { plain, rounded, several } from "./units.js";

const USUAL = "dgx-h100";

/** `mesh` is what a request says of its mesh. */
export class MeshPicker {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {any[]} */
    this.meshes = [];
    for (const input of document.querySelectorAll("input[name=mesh-source]"))
      input.addEventListener("change", () => this.#source());
    byId("mesh").addEventListener("change", () => this.#show());
    byId("nodes").addEventListener("input", () => this.#show());
    /** The text of a mesh file, and its fields once the service has read it. */
    this.file = { text: "", fields: /** @type {any} */ (null) };
    byId("mesh-json").addEventListener("input", () => this.#changed());
    byId("mesh-file").addEventListener("change", () => this.#open(byId("mesh-file").files[0]));
  }

  async load() {
    this.meshes = (await get("/v1/meshes")).items;
    const options = this.meshes.map((mesh) =>
      element("option", { value: mesh.name }, `${mesh.name}: ${several(mesh.device_count, "device")}`),
    );
    fill(byId("mesh"), ...options);
    this.choose(USUAL);
  }

  /** Choose a mesh, or so many nodes of it (`2x-dgx-h100`). @param {string} name */
  choose(name) {
    const [, nodes, node] = this.#chosen(name) ? [name, "1", name] : (/^(\d+)x-(.+)$/.exec(name) ?? []);
    if (node && this.#chosen(node)) {
      byId("mesh").value = node;
      byId("nodes").value = nodes;
    }
    this.#show();
  }

  /** The mesh of the catalog that is called so. @param {string} name */
  #chosen(name = byId("mesh").value) {
    return this.meshes.find((mesh) => mesh.name === name);
  }

  /** Choose what a request says of its mesh: a name, or an object. @param {any} mesh */
  take(mesh) {
    if (typeof mesh === "string") return this.choose(mesh);
    /** @type {any} */ (document.querySelector("input[name=mesh-source][value=inline]")).checked = true;
    byId("mesh-json").value = JSON.stringify(mesh, null, 2);
    return this.#source();
  }

  get isInline() {
    return /** @type {any} */ (document.querySelector("input[name=mesh-source]:checked")).value === "inline";
  }

  /** @returns {any} a name or an object; null where the text has no fields, or none as yet */
  get mesh() {
    if (this.isInline) return this.#read();
    return this.#nodes === "1" ? byId("mesh").value : `${this.#nodes}x-${byId("mesh").value}`;
  }

  /** The number of nodes, as it was typed; one where the mesh states no network. */
  get #nodes() {
    const mesh = this.#chosen();
    return mesh?.network && !mesh.nodes ? byId("nodes").value : "1";
  }

  #source() {
    byId("mesh-catalog").hidden = this.isInline;
    byId("mesh-inline").hidden = !this.isInline;
    if (this.isInline && !byId("mesh-json").value.trim()) byId("mesh-json").value = this.#template();
    this.onChange();
  }

  /** The chosen mesh, to be changed. */
  #template() {
    const mesh = this.#chosen();
    if (!mesh) return "";
    if (mesh.nodes)
      return JSON.stringify({ name: `my-${mesh.name}`, nodes: mesh.nodes, network: mesh.network }, null, 2);
    const axes = mesh.axes.map((/** @type {any} */ { sources, ...axis }) => axis);
    return JSON.stringify({ name: `my-${mesh.name}`, device: mesh.device.name, axes }, null, 2);
  }

  /** Take the text of a file. @param {File | undefined} file */
  async #open(file) {
    if (!file) return;
    byId("mesh-json").value = await file.text();
    this.#changed();
  }

  /** Let the service read the fields of what is no JSON object: a mesh file is TOML. */
  async #changed() {
    const text = byId("mesh-json").value;
    say(byId("mesh-message"), "");
    if (!text.trim() || isObject(text)) return void this.onChange();
    this.file = { text, fields: null };
    try {
      const fields = await post("/runs/new/mesh", { text });
      if (this.file.text !== text) return;
      this.file.fields = fields;
    } catch (error) {
      if (this.file.text === text) say(byId("mesh-message"), error instanceof Error ? error.message : String(error));
    }
    this.onChange();
  }

  #read() {
    const text = byId("mesh-json").value;
    if (!isObject(text)) return text === this.file.text ? this.file.fields : null;
    try {
      const found = JSON.parse(text);
      if (typeof found !== "object" || found === null || Array.isArray(found))
        throw new Error("expected an object");
      say(byId("mesh-message"), "");
      return found;
    } catch (error) {
      say(
        byId("mesh-message"),
        text.trim() ? `This is no JSON object: ${error instanceof Error ? error.message : error}` : "",
      );
      return null;
    }
  }

  #show() {
    const mesh = this.#chosen();
    if (!mesh) return;
    byId("mesh-nodes").hidden = !mesh.network || mesh.nodes;
    const { devices, axes: own } = meshFacts(mesh);
    const [device] = devices;
    const names = [...new Set(devices.map(({ name }) => name))].join(" and ");
    const nodes = Number(this.#nodes);
    const axes = nodes > 1 ? [{ name: "node", size: nodes, ...mesh.network }, ...own] : own;
    const count = mesh.device_count * Math.max(nodes, 1);
    const peaks = Object.entries(device.peak_flops_per_s).map(
      ([dtype, peak]) => `${dtype} ${rounded(/** @type {number} */ (peak), "flop/s")}`,
    );
    const links = axes.map((/** @type {any} */ axis) =>
      element(
        "div",
        {},
        `${axis.name}: ${plain(axis.size)} on a ${axis.topology}, ${rounded(axis.bandwidth_bytes_per_s, "B/s")}, ${rounded(axis.latency_s, "s")}`,
      ),
    );
    fill(
      byId("mesh-facts"),
      pairs([
        ["Device", `${names} by ${device.vendor}, ${several(count, "of them", "of them")}`],
        [
          "Memory",
          `${rounded(device.memory_bytes, "GB")} each, read at ${rounded(device.memory_bytes_per_s, "B/s")}`,
          "mesh: memory",
        ],
        ["Peak", peaks.join(", ")],
        ["Axes", links],
      ]),
    );
    const dtypes = Object.keys(device.peak_flops_per_s);
    fill(
      byId("compute-dtype"),
      element("option", { value: "" }, "the device's own choice"),
      ...dtypes.map((dtype) => element("option", { value: dtype }, dtype)),
    );
    this.onChange();
  }
}

/** Whether a text is meant as a JSON object; a mesh file begins otherwise. @param {string} text */
function isObject(text) {
  return text.trimStart().startsWith("{");
}
