/**
 * The objectives of the catalog together with those of one program or run.
 * @module objective-list
 */

/** @typedef {{name: string, unit: string, title: string, description: string, expression: string}} Objective */

/** The catalog, then what it lacks: resources of a program, expressions. @param {Objective[]} catalog @param {Objective[]} others */
export function joined(catalog, others) {
  const names = new Set(catalog.map(({ name }) => name));
  return [...catalog, ...others.filter(({ name }) => !names.has(name))];
}
