/**
 * A curve of the size of a word.
 * @module sparkline
 */

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, EDGE] = [72, 20, 2];

/**
 * Points ascend in their first member; the curve keeps a value until the next point, and is as high as its largest value.
 * @param {[number, number][]} points
 * @param {string} label what it shows, in words
 */
export function sparkline(points, label) {
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const most = points.reduce((high, [, value]) => Math.max(high, value), 0) || 1;
  const x = (/** @type {number} */ at) => EDGE + ((at - first) / (last - first || 1)) * (WIDTH - 2 * EDGE);
  const y = (/** @type {number} */ value) => HEIGHT - EDGE - (value / most) * (HEIGHT - 2 * EDGE);
  const path = points.map(([at, value], k) =>
    k ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}`,
  );
  const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "sparkline", role: "img", "aria-label": label });
  const title = svgElement("title", {});
  title.textContent = label;
  svg.append(title, svgElement("path", { d: path.join("") }));
  const end = points[points.length - 1];
  svg.append(svgElement("circle", { cx: x(end[0]).toFixed(1), cy: y(end[1]).toFixed(1), r: "1.8" }));
  return svg;
}

/** @param {string} tag @param {Record<string, string>} attributes */
function svgElement(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
