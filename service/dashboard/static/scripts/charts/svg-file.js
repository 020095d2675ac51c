/**
 * SVG elements of a page as files, in the colors that they have there.
 * @module charts/svg-file
 */

import { color } from "../colors.js";
import { paintedPng } from "./png.js";

const SPACE = "http://www.w3.org/2000/svg";
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];
const BETWEEN = 40; // px

/** Drawings of a page beside each other, as PNG and SVG. */
export class SvgFile {
  /** @param {() => SVGElement[]} elements read when a file is made */
  constructor(elements) {
    this.elements = elements;
  }

  /** The drawings as one document, with the styles of the page written into it. */
  svg() {
    const all = this.elements();
    const whole = document.createElementNS(SPACE, "svg");
    let width = 0;
    let height = 0;
    for (const one of all) {
      const { viewBox } = /** @type {SVGSVGElement} */ (one);
      const { x, y, width: own, height: tall } = viewBox.baseVal;
      const part = document.createElementNS(SPACE, "g");
      part.setAttribute("transform", `translate(${width - x} ${-y})`);
      part.append(...[...one.childNodes].map((child) => styled(child)));
      whole.append(part);
      width += own + BETWEEN;
      height = Math.max(height, tall);
    }
    const ground = document.createElementNS(SPACE, "rect");
    for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: color("surface") })) ground.setAttribute(name, value);
    whole.prepend(ground);
    for (const [name, value] of Object.entries({ width: width - BETWEEN, height })) whole.setAttribute(name, String(Math.ceil(value)));
    whole.setAttribute("xmlns", SPACE);
    return new XMLSerializer().serializeToString(whole);
  }

  /** The same as a PNG. @returns {Promise<Blob>} */
  async png() {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.svg())}`;
    await image.decode();
    return paintedPng(image.naturalWidth, image.naturalHeight, (pen) => pen.drawImage(image, 0, 0));
  }
}

/** A copy of a node that needs no style sheet. @param {Node} node @returns {Node} */
function styled(node) {
  const copy = node.cloneNode(false);
  if (node instanceof SVGElement && copy instanceof SVGElement) {
    const computed = getComputedStyle(node);
    for (const name of STYLES) copy.setAttribute(name, computed.getPropertyValue(name));
    copy.removeAttribute("class");
  }
  copy.textContent = node.childNodes.length ? "" : node.textContent;
  for (const child of node.childNodes) copy.appendChild(styled(child));
  return copy;
}
