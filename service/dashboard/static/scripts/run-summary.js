/**
 * The options of a run, what it was made with, and how to repeat it.
 * @module run-summary
 */

import { get, pages } from "./api.js";
import { copyable } from "./copying.js";
import { element, fill } from "./dom.js";
import { meshFacts } from "./mesh-facts.js";
import { titlesOf } from "./objective-list.js";
import { pairs } from "./pairs.js";
import { clock, duration, percent, rounded } from "./units.js";

/** What a service that has a key wants to see. */
const KEY = '-H "Authorization: Bearer $TAPESTRY_API_KEY"';

/**
 * A run with its `mesh_document`, which the service has at a place of its own.
 * @param {string} path
 * @returns {Promise<any>}
 */
export async function getRun(path) {
  const [run, mesh] = await Promise.all([get(path), get(`${path}/mesh`)]);
  return { ...run, mesh_document: mesh };
}

/**
 * Where a run that waits is in the queue, and when it is expected to begin.
 * @param {any} place
 * @param {number} [now] milliseconds
 */
export function placeText(place, now = Date.now()) {
  const where = place.position === 1 ? "This run is next" : `This run is number ${place.position} of those that wait`;
  if (!place.expected_start) return `${where}. No worker is there to begin it.`;
  const [expected, earliest, latest] = ["expected_start", "earliest_start", "latest_start"].map((name) =>
    duration(Math.max(0, Math.round((Date.parse(place[name]) - now) / 1000))),
  );
  const basis = place.guess ? "a guess by the limits of runs" : "by how long runs took lately";
  return `${where}. It is expected to begin in ${expected}, between ${earliest} and ${latest} from now (${basis}).`;
}

/**
 * The mesh of a run, its axes and devices; links lead to what the catalog has of them.
 * @param {any} run @returns {import("./dom.js").Child[]}
 */
export function meshLine({ id, mesh: name, mesh_document: mesh, mesh_is_named: isKnown }) {
  const { devices, axes } = meshFacts(mesh);
  const own = pages.meshOf(id);
  const linked = (/** @type {string} */ text, /** @type {string} */ href) => element("a", { href: isKnown ? href : own }, text);
  const names = [...new Set(devices.map((/** @type {any} */ device) => device.name))];
  const memory = [...new Set(devices.map((device) => rounded(device.memory_bytes, "GB")))].join(" and ");
  const size = axes.map((/** @type {any} */ axis) => `${axis.name} ${axis.size}`).join(" × ");
  const of = names.flatMap((each, k) => [k ? " and " : "", linked(each, pages.device(each))]);
  return [linked(name, pages.mesh(name)), `: ${size}, `, ...of, ` (${memory} each)`];
}

/**
 * What a request says of the mesh of a run: its name where the catalog has the very same, else all of it.
 * Members that options of the run have set are left out, for the request has these options.
 * @param {any} run
 */
export function meshOf(run) {
  if (run.mesh_is_named) return run.mesh;
  const set = [...(run.launch === null ? [] : ["launch"]), ...(run.robust === null ? [] : ["quantile"])];
  return without(run.mesh_document, ["sources", "device_count", ...set]);
}

/**
 * A document without the members of those names.
 * @param {any} value @param {string[]} names @returns {any}
 */
function without(value, names) {
  if (Array.isArray(value)) return value.map((each) => without(each, names));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([name]) => !names.includes(name));
  return Object.fromEntries(members.map(([name, member]) => [name, without(member, names)]));
}

/** The request that makes the same run again. @param {any} run */
function requestOf(run) {
  return { graph_id: run.graph_id, mesh: meshOf(run), ...run.request, fresh: true };
}

/** @param {string} path @param {any} [body] */
export function curl(path, body) {
  const url = `${location.origin}${path}`;
  const command = "key" in document.body.dataset ? `curl -sS ${KEY}` : "curl -sS";
  if (!body) return `${command} ${url}`;
  const text = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return `${command} -H 'Content-Type: application/json' -d '${text}' ${url}`;
}

/**
 * What people read of an option: objectives by their titles, what a prior counts.
 * @param {string} title @param {string} text @param {any} run @param {import("./cost-table.js").Objective[]} catalog
 */
function optionText(title, text, run, catalog) {
  if (title === "Objectives") return titlesOf(run.objectives, catalog);
  if (title === "Prior" && /^\d+$/.test(text)) return `snapshot ${text} of what earlier runs have learned`;
  return text;
}

/** @param {HTMLElement} place @param {any} run @param {import("./cost-table.js").Objective[]} catalog */
export function showRequest(place, run, catalog) {
  const options = run.options.map((/** @type {{title: string, text: string}} */ { title, text }) => [
    title,
    optionText(title, text, run, catalog),
    `option: ${title.toLowerCase()}`,
  ]);
  const source = run.start_from
    ? element("a", { href: pages.run(run.start_from), class: "mono" }, run.start_from)
    : null;
  fill(
    place,
    pairs([
      ["Program", element("a", { href: pages.graph(run.graph_id) }, run.graph)],
      ["Mesh", meshLine(run), "run: mesh"],
      ["Begins at", source],
      ...options,
    ]),
  );
}

/** Expected improvements below this share are not shown. */
const LEAST_SHARE = 5e-4;

/**
 * What more searching would bring; null where nothing is known.
 * @param {Record<string, number>} expected @param {import("./cost-table.js").Objective[]} catalog
 */
function expectation(expected, catalog) {
  const shares = Object.entries(expected);
  if (!shares.length) return null;
  const lower = shares.filter(([, share]) => share >= LEAST_SHARE).map(([name, share]) => `${titlesOf([name], catalog)} by ${percent(share)}`);
  const what = lower.length ? `lower ${lower.join(", ")}` : "change no objective by as much as 0.05 %";
  return `would ${what}, as the best values improved so far`;
}

/** @param {HTMLElement} place with what the words for reasons mean @param {any} run @param {import("./cost-table.js").Objective[]} catalog */
export function showMaking(place, run, catalog) {
  const reasons = JSON.parse(place.dataset.reasons ?? "{}");
  const timings = Object.entries(run.timings).map(
    ([name, seconds]) => `${name.replace(/_s$/, "")} ${duration(/** @type {number} */ (seconds))}`,
  );
  const versions = Object.entries(run.versions).map(([name, version]) => `${name} ${version}`);
  const { name, system, machine, cores } = run.host;
  fill(
    place,
    pairs([
      ["Submitted", clock(run.created_at)],
      ["Begun", run.started_at && clock(run.started_at)],
      ["Ended", run.ended_at && clock(run.ended_at)],
      ["Ended because", reasons[run.stopped] ?? run.stopped],
      ["Another minute", expectation(run.expected, catalog)],
      ["Worker attempts", run.attempt ? String(run.attempt) : null],
      ["Took", timings.join(", ")],
      ["On", name ? `${name}, ${system} ${machine}, ${cores} cores` : null, "run: on"],
      ["With", versions.join(", "), "run: with"],
    ]),
  );
}

/** @param {Element} place @param {any} run */
export function showCommands(place, run) {
  fill(
    place,
    element("h3", {}, "Read the frontier"),
    copyable(curl(`/v1/runs/${run.id}/frontier`), "the command that reads the frontier"),
    element("h3", {}, "Ask for the same run again"),
    copyable(curl("/v1/runs", requestOf(run)), "the command that asks again"),
  );
}
