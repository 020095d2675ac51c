/** Layouts: a text is described and drawn by the API; the address keeps the text. */

import { post, postForFile, problemOf } from "../api.js";
import { byId, element, fill, pairs } from "../dom.js";
import { clearFaults, showFaults } from "../faults.js";
import { watchHealth } from "../health.js";
import { errorNotice } from "../notice.js";

const form = byId("form");
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
    history.replaceState(null, "", `?${new URLSearchParams({ text: wanted.text })}`);
    fill(byId("figures"), figures(described));
    byId("result").hidden = false;
    await draw({ text: wanted.text, dtype: wanted.dtype });
  } catch (error) {
    byId("result").hidden = true;
    showFaults(form, problemOf(error));
  }
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
    fill(byId("picture"), errorNotice(error));
  }
}

/** @param {any} layout */
function figures(layout) {
  return pairs([
    ["Notation", layout.title],
    ["Text", element("code", {}, layout.text)],
    ["Shape", shape(layout)],
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
    ["Size", `${count(layout.size_bytes)} B`],
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
const given = new URLSearchParams(location.search).get("text");
if (given) byId("text").value = given;
watchHealth();
void show();
