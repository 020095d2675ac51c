/**
 * What went wrong, in plain words.
 * @module notice
 */

import { problemOf } from "./api.js";
import { element } from "./dom.js";

/**
 * A notice about a problem document or an error.
 * @param {any} problem
 * @param {...(Node | string)} more
 */
export function problemNotice(problem, ...more) {
  const text = problem.detail ?? problem.message ?? "";
  const errors = problem.errors ?? [];
  const isStated = errors.length === 1 && [errors[0].detail, errors[0].pointer ?? ""].every((part) => text.includes(part));
  const faults = (isStated ? [] : errors).map((/** @type {any} */ fault) =>
    element(
      "li",
      {},
      fault.pointer ? element("code", {}, fault.pointer) : "",
      fault.pointer ? ": " : "",
      fault.detail,
    ),
  );
  return element(
    "div",
    { class: "notice bad", role: "alert" },
    element("strong", {}, problem.title ?? "This did not work"),
    element("p", {}, text),
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
