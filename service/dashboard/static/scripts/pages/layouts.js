/** Layouts: a text is described, mapped and drawn by the API; the address keeps it, and which cell was chosen. */

import { post, postForFile, problemOf } from "../api.js";
import { byId, element, fill } from "../dom.js";
import { clearFaults, showFaults } from "../faults.js";
import { watchHealth } from "../health.js";
import { Explorer } from "../layouts/explorer.js";
import { errorNotice } from "../notice.js";
import { pairs } from "../pairs.js";

const form = byId("form");
const explorer = new Explorer(pin);
let picture = "";

/** @param {string} id */
function typed(id) {
  const text = byId(id).value.trim();
  return text === "" ? undefined : text;
}

/** What was typed, as the API takes it; what is no number is sent as it is, so that the API says so. */
function request() {
  const offset = typed("offset");
  return {
    text: byId("text").value,
    dtype: typed("dtype"),
    at: typed("at")?.split(",").map(numberOr),
    offset: offset === undefined ? undefined : numberOr(offset),
  };
}

/** @param {string} text */
function numberOr(text) {
  return /^\d+$/.test(text.trim()) ? Number(text) : text;
}

async function show() {
  clearFaults(form);
  const wanted = request();
  try {
    const described = await post("/v1/layouts/describe", wanted);
    keep(wanted);
    fill(byId("figures"), figures(described));
    byId("result").hidden = false;
    const { text, dtype } = wanted;
    await Promise.all([explore({ text, dtype }, wanted), draw({ text, dtype })]);
  } catch (error) {
    byId("result").hidden = true;
    showFaults(form, problemOf(error));
  }
}

/** Write into the address what was asked for. @param {any} wanted */
function keep({ text, dtype, at, offset }) {
  const state = Object.entries({ text, dtype, at: at?.join(","), offset }).filter(([, value]) => value !== undefined);
  history.replaceState(null, "", `?${new URLSearchParams(/** @type {any} */ (state))}`);
}

/** Show both sides of the layout. @param {{text: string, dtype?: string}} layout @param {any} pinned */
async function explore(layout, pinned) {
  try {
    const map = await post("/v1/layouts/map", layout);
    fill(byId("unexplored"));
    byId("explorer").hidden = false;
    explorer.show(map, pinned);
  } catch (error) {
    byId("explorer").hidden = true;
    fill(byId("unexplored"), element("section", { class: "card" }, element("header", {}, element("h2", {}, "Tensor and memory")), whyNot(error)));
  }
}

/** A cell was clicked: the fields and the address have it. @param {{at?: number[], offset?: number}} pinned */
function pin({ at, offset }) {
  byId("at").value = at?.join(", ") ?? "";
  byId("offset").value = offset ?? "";
  keep({ ...request(), at, offset });
}

/** @param {{text: string, dtype?: string}} wanted */
async function draw(wanted) {
  try {
    const drawn = URL.createObjectURL(await postForFile("/v1/layouts/draw", wanted));
    URL.revokeObjectURL(picture);
    picture = drawn;
    byId("save").href = drawn;
    fill(byId("picture"), element("img", { src: drawn, alt: `Where the elements of ${wanted.text} lie` }));
  } catch (error) {
    fill(byId("picture"), whyNot(error));
  }
}

/** Why something of a layout cannot be shown, such as its size. @param {unknown} error */
function whyNot(error) {
  const { status, errors } = problemOf(error);
  return status === 422 ? element("p", {}, errors.map((fault) => fault.detail).join("; ")) : errorNotice(error);
}

/** @param {any} layout */
function figures(layout) {
  return pairs([
    ["Notation", layout.title],
    ["Text", element("code", {}, layout.text)],
    ["Shape", shape(layout), "layout: shape"],
    ...(layout.buffer_count ? storage(layout) : [["Stored as", "nothing: the elements are computed"]]),
    ["Element", layout.value ?? located(layout.element)],
    ["Offset", located(layout.slot)],
  ]);
}

/** @param {any} layout */
function shape(layout) {
  const sizes = `[${layout.shape.join(", ")}]`;
  return layout.buffer_count ? `${sizes}, elements of ${layout.element_bits} bits` : sizes;
}

/** @param {any} layout */
function storage(layout) {
  const count = (/** @type {number} */ n) => n.toLocaleString("en");
  return [
    ["Stored as", `[${layout.physical_shape.join(", ")}]`],
    ["Buffers", `${count(layout.buffer_count)} of ${count(layout.buffer_elements)} slots`],
    ["Size", `${count(layout.size_bytes)} B`, "layout: size"],
    ["Padding", `${count(layout.padding_bytes)} B (${(100 * layout.padding_share).toFixed(1)} %)`],
  ];
}

/** @param {any} place */
function located(place) {
  if (!place) return null;
  const what = place.is_padding ? "padding" : `[${place.coordinates.join(", ")}]`;
  const byte = place.byte === null ? "" : `, byte ${place.byte}`;
  return `${what} at offset ${place.offset}: ${place.buffer_name}, slot ${place.slot}${byte}`;
}

form.addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  void show();
});
byId("example").addEventListener("change", () => {
  byId("text").value = byId("example").value;
  for (const id of ["at", "offset", "dtype"]) byId(id).value = "";
  void show();
});
const given = new URLSearchParams(location.search);
if (given.get("text")) for (const id of ["text", "dtype", "at", "offset"]) byId(id).value = given.get(id) ?? "";
watchHealth();
void show();
