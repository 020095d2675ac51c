/** Devices and meshes of the catalog, and the mesh of a run; the address says which is shown, and what of it. */

import { get, pages, problemOf } from "../api.js";
import { ChoiceList } from "../choice-list.js";
import { showDevice } from "../devices/device-view.js";
import { choicesOf } from "../devices/entries.js";
import { showMesh } from "../devices/mesh-view.js";
import { byId, element, fill, nowUsable, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice, missing } from "../notice.js";

const USUAL = "dgx-h100";
/** @typedef {import("../devices/entries.js").Entry} Entry */
/** What is shown: a device or a mesh by name, or the mesh of a run by the run's id. @typedef {{kind: string, name: string}} Shown */

/** Where what is shown is fetched. @type {Record<string, string>} */
const PATHS = { device: "devices", mesh: "meshes", run: "runs" };

async function begin() {
  try {
    const [meshes, devices] = await Promise.all([get("/v1/meshes"), get("/v1/devices")]);
    showCatalog(choicesOf(meshes.items, devices.items));
  } catch (error) {
    fill(byId("chosen"), errorNotice(error));
  }
}

/** What the catalog is searched by: fields, and the address. */
const TERMS = ["find", "kind"];

/** @param {Entry[]} entries */
function showCatalog(entries) {
  const given = new URLSearchParams(location.search);
  const list = new ChoiceList(byId("catalog"), "name", (/** @type {Entry} */ entry) => choose(entry, new URLSearchParams()));
  const search = () => {
    const words = byId("find").value.trim().toLowerCase().split(/\s+/);
    const kind = byId("kind").value;
    const shown = entries.filter((one) => (!kind || one.kind === kind) && words.every((/** @type {string} */ word) => one.words.includes(word)));
    say(byId("choice-count"), `${shown.length} of ${entries.length}`);
    list.show(shown, "Nothing in the catalog is called so, or is by that vendor.");
  };
  let chosen = { entry: wanted(entries, given), state: given };
  /** @param {{name: string, kind: string}} entry @param {URLSearchParams} state */
  const choose = (entry, state) => {
    chosen = { entry, state };
    list.choose(/** @type {any} */ (entry));
    keep(entry, state);
    void show(entry, state);
  };
  byId("find").value = given.get("find") ?? byId("find").value;
  byId("kind").value = given.get("kind") ?? byId("kind").value;
  for (const id of TERMS)
    byId(id).addEventListener("input", () => {
      search();
      keep(chosen.entry, chosen.state);
    });
  search();
  nowUsable(byId("choices"));
  choose(chosen.entry, chosen.state);
}

/** What the address names, be it in the list or not: `2x-dgx-h100` is not. @param {Entry[]} entries @param {URLSearchParams} given */
function wanted(entries, given) {
  for (const kind of Object.keys(PATHS)) {
    const name = given.get(kind);
    if (!name) continue;
    const known = entries.find((one) => one.kind === kind && (one.name === name || one.aliases.includes(name)));
    return known ?? { kind, name };
  }
  return entries.find((one) => one.name === USUAL) ?? entries[0];
}

/** Write into the address what is shown. @param {{name: string, kind: string}} entry @param {URLSearchParams} state */
function keep({ kind, name }, state) {
  const kept = new URLSearchParams(state);
  for (const each of Object.keys(PATHS)) kept.delete(each);
  for (const id of TERMS) byId(id).value ? kept.set(id, byId(id).value) : kept.delete(id);
  history.replaceState(null, "", `?${new URLSearchParams([[kind, name], ...kept])}`);
}

/** @param {{name: string, kind: string}} entry @param {URLSearchParams} state */
async function show(entry, state) {
  const { kind, name } = entry;
  const place = byId("chosen");
  place.dataset.name = name;
  place.setAttribute("aria-busy", "true");
  try {
    const document = await get(`/v1/${PATHS[kind]}/${encodeURIComponent(name)}/${kind === "run" ? "mesh/curves" : "curves"}`);
    if (place.dataset.name !== name) return;
    const parts = kind === "run" ? [document.mesh, ...document.devices] : [document];
    const sections = parts.map(() => element("div", { class: "stack" }));
    fill(place, kind === "run" ? ownNote(name) : null, ...sections);
    sections.forEach((section, k) => {
      const isMesh = kind === "mesh" || (kind === "run" && k === 0);
      (isMesh ? showMesh : showDevice)(section, parts[k], state, () => keep(entry, state));
    });
  } catch (error) {
    if (place.dataset.name === name) fill(place, missingEntry(error, kind, name));
  }
  place.removeAttribute("aria-busy");
}

/** @param {string} run its id */
function ownNote(run) {
  return element("p", { class: "note" }, "The mesh of the run ", element("a", { href: pages.run(run) }, run), ", with the figures that it was searched with.");
}

/** What is said in place of what cannot be had. @param {unknown} error @param {string} kind @param {string} name */
function missingEntry(error, kind, name) {
  const problem = problemOf(error);
  if (problem.status !== 404) return errorNotice(error);
  if (kind === "run") return missing(error, "run", name);
  const near = problem.errors.flatMap(({ allowed }) => allowed ?? []);
  const path = kind === "mesh" ? pages.mesh : pages.device;
  const links = near.flatMap((each, k) => [k ? ", " : " Near it: ", element("a", { href: path(each) }, each)]);
  return element("section", { class: "card", role: "alert" }, element("h2", {}, `The catalog has no ${kind} “${name}”`),
    element("p", {}, "Choose one of the list.", links, links.length ? "." : null));
}

watchHealth();
void begin();
