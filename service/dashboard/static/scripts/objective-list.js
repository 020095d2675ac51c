/**
 * The objectives of the catalog together with those of one program or run.
 * @module objective-list
 */

import { explainCosts } from "./explanations.js";

/** @typedef {{name: string, unit: string, title: string, description: string, expression: string}} Objective */

/** The catalog, then what it lacks: resources of a program, expressions. All of them are explained from then on. @param {Objective[]} catalog @param {Objective[]} others */
export function joined(catalog, others) {
  const names = new Set(catalog.map(({ name }) => name));
  const all = [...catalog, ...others.filter(({ name }) => !names.has(name))];
  explainCosts(all);
  return all;
}

/** Objectives as people name them; what the catalog lacks stays as it is. @param {string[]} names @param {{name: string, title: string}[]} catalog */
export function titlesOf(names, catalog) {
  return names.map((name) => catalog.find((known) => known.name === name)?.title ?? name).join(", ");
}
