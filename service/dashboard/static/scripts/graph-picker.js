/**
 * Which program: one that is stored, an example, or a file.
 * @module graph-picker
 */

import { exampleFile, get, uploadGraph } from "./api.js";
import { byId, element, fill, say } from "./dom.js";
import { graphFigures } from "./graph-summary.js";
import { errorNotice, problemNotice } from "./notice.js";
import { age, percent } from "./units.js";

const MOST = 200;

/** `graphId` is the program that is chosen, or null; while a file is read, `reading` is its name and no program is chosen. */
export class GraphPicker {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {any} */
    this.chosen = null;
    /** The program that the user chose, not the page. @type {any} */
    this.preferred = null;
    this.reading = "";
    this.latest = 0;
    for (const input of document.querySelectorAll("input[name=source]"))
      input.addEventListener("change", () => this.#source());
    byId("stored").addEventListener("change", () => this.choose(byId("stored").value));
    byId("import-example").addEventListener("click", async () =>
      this.#take(() => exampleFile(byId("example").value)),
    );
    byId("file").addEventListener("change", () => this.#file(byId("file").files[0]));
    byId("browse").addEventListener("click", () => byId("file").click());
    this.#dropping();
  }

  get graphId() {
    return this.chosen?.id ?? null;
  }

  /** Read what is stored; the program of that id, or else the newest, is chosen. @param {string | null} wanted */
  async load(wanted) {
    const { items } = await get(`/v1/graphs?limit=${MOST}`);
    this.#list(items);
    const id = wanted ?? items[0]?.id;
    if (id) return this.choose(id, wanted !== null);
    this.#turnTo(byId("example").options.length ? "example" : "upload");
    return undefined;
  }

  /** @param {any[]} graphs */
  #list(graphs) {
    this.graphs = graphs;
    const options = graphs.map((graph) =>
      element(
        "option",
        { value: graph.id },
        `${graph.name}, ${graph.blocks} blocks, ${age(graph.created_at)} (${graph.id.slice(0, 8)})`,
      ),
    );
    fill(
      byId("stored"),
      ...(options.length ? options : [element("option", { value: "" }, "nothing stored yet")]),
    );
    byId("stored").disabled = options.length === 0;
  }

  /** @param {string} id @param {boolean} [isPreferred] whether the user chose it */
  async choose(id, isPreferred = true) {
    const mine = ++this.latest;
    this.reading = "";
    try {
      const graph =
        this.graphs?.find((one) => one.id === id) ?? (await get(`/v1/graphs/${encodeURIComponent(id)}`));
      if (mine === this.latest) this.#chosen(graph, isPreferred);
    } catch (error) {
      fill(byId("graph-status"), errorNotice(error));
    }
  }

  /** @param {any} graph @param {boolean} isPreferred */
  #chosen(graph, isPreferred) {
    this.chosen = graph;
    this.reading = "";
    if (isPreferred) this.preferred = graph;
    if (!this.graphs?.some((one) => one.id === graph.id)) this.#list([graph, ...(this.graphs ?? [])]);
    byId("stored").value = graph.id;
    fill(byId("graph-status"), element("p", { class: "chosen" }, `Chosen: ${graph.name}`), graphFigures(graph));
    this.onChange();
  }

  /** Say why a file is no program, and that what the user chose before is chosen. @param {Element} notice */
  #refused(notice) {
    this.chosen = this.preferred;
    this.reading = "";
    const kept = this.chosen ? `Still chosen: ${this.chosen.name}` : "No program is chosen.";
    if (!this.chosen) byId("stored").value = "";
    fill(byId("graph-status"), notice, element("p", { class: "chosen" }, kept));
    this.onChange();
  }

  #source() {
    const source = /** @type {any} */ (document.querySelector("input[name=source]:checked")).value;
    for (const name of ["stored", "example", "upload"]) byId(`source-${name}`).hidden = name !== source;
  }

  /** @param {string} source */
  #turnTo(source) {
    /** @type {any} */ (document.querySelector(`input[name=source][value=${source}]`)).checked = true;
    this.#source();
  }

  /** @param {File | undefined} file */
  #file(file) {
    if (!file) return;
    if (!/\.(onnx|pt2|mlir|mlir\.gz|mlirbc|json)$/i.test(file.name)) {
      const detail = `expected ONNX (.onnx), PyTorch (.pt2), StableHLO (.mlir) or a TEG document (.json), not ${file.name}`;
      this.latest += 1; // what is being read is no longer wanted
      this.#refused(problemNotice({ title: "Another kind of file", detail }));
      return;
    }
    void this.#take(async () => file);
  }

  /** @param {() => Promise<File>} read */
  async #take(read) {
    const mine = ++this.latest;
    this.chosen = null;
    this.reading = "the file";
    const bar = element("div");
    const status = element("p", { class: "small muted" }, "Reading…");
    const progress = element("div", { class: "progress" }, bar);
    fill(byId("graph-status"), status, progress);
    byId("import-example").disabled = true;
    try {
      const file = await read();
      this.reading = file.name;
      say(status, `Reading ${file.name}…`);
      this.onChange();
      const graph = await uploadGraph(
        file,
        byId("dims").value.trim(),
        (share) => {
          bar.style.width = `${100 * share}%`;
          say(status, share < 1 ? `Sending ${file.name}: ${percent(share)}` : `Importing ${file.name}…`);
        },
        (found) => say(status, importText(file.name, found)),
      );
      if (mine === this.latest) this.#chosen(graph, true);
    } catch (error) {
      if (mine === this.latest) this.#refused(errorNotice(error));
    }
    byId("file").value = "";
    byId("import-example").disabled = false;
  }

  #dropping() {
    const drop = byId("drop");
    for (const kind of ["dragenter", "dragover"]) {
      drop.addEventListener(kind, (/** @type {DragEvent} */ event) => {
        event.preventDefault();
        drop.classList.add("over");
      });
    }
    for (const kind of ["dragleave", "drop"])
      drop.addEventListener(kind, () => drop.classList.remove("over"));
    drop.addEventListener("drop", (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      this.#file(event.dataTransfer?.files[0]);
    });
  }
}

/**
 * How far the import of a large program is.
 * @param {string} name
 * @param {any} found
 */
function importText(name, found) {
  if (found.status === "running") return `A worker reads ${name}…`;
  const place = found.position === null ? "" : `: number ${found.position} in the queue`;
  return `${name} waits for a worker${place}`;
}
