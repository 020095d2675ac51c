/**
 * What went wrong, in plain words.
 * @module notice
 */

import { problemOf } from "./api.js";
import { element } from "./dom.js";

/** Parts of requests that are no body, as pointers name them. */
const FIELD = /#(?:query|header|path)\/([\w-]+)(?:\/(\d+))?/g;

/** A text with the names of fields in place of pointers to them. @param {string} text */
function named(text) {
  return text.replace(FIELD, (_, name, k) => (k === undefined ? name : `${name} ${Number(k) + 1}`));
}

/**
 * Whether a text has all of a fault: what it is, and where, unless that is a field of its own.
 * @param {{pointer?: string, detail: string}} fault @param {string} text
 */
function isStated({ pointer = "", detail }, text) {
  return text.includes(detail) && (text.includes(pointer) || /^\/\w+$/.test(pointer));
}

/**
 * A notice about a problem document or an error.
 * @param {any} problem
 * @param {...(Node | string)} more
 */
export function problemNotice(problem, ...more) {
  const text = problem.detail ?? problem.message ?? "";
  const rest = (problem.errors ?? []).filter((/** @type {any} */ fault) => !isStated(fault, text));
  const faults = rest.map((/** @type {any} */ fault) =>
    element(
      "li",
      {},
      fault.pointer ? element("code", {}, named(fault.pointer)) : "",
      fault.pointer ? ": " : "",
      fault.detail,
    ),
  );
  return element(
    "div",
    { class: "notice bad", role: "alert" },
    element("strong", {}, problem.title ?? "This did not work"),
    element("p", {}, named(text)),
    faults.length ? element("ul", {}, faults) : null,
    ...more,
  );
}

/** A notice about whatever went wrong. @param {unknown} error */
export function errorNotice(error) {
  return problemNotice(problemOf(error));
}

/**
 * What a page says in place of its content when that cannot be had, with its heading.
 * @param {unknown} error
 * @param {string} what such as "run"
 * @param {string} id
 */
export function missing(error, what, id) {
  const problem = problemOf(error);
  const isUnknown = problem.status === 404;
  const heading = isUnknown ? `There is no ${what} “${id}”` : `The ${what} “${id}” cannot be shown`;
  const back = element("p", {}, element("a", { href: "/" }, "All runs"));
  const notice = isUnknown
    ? element("p", {}, "The address may be mistyped, or this service may have another database.")
    : problemNotice(problem);
  return element("div", { class: "stack", role: isUnknown && "alert" }, element("h1", {}, heading), notice, back);
}
