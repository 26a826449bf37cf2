// Looks at a page as a person would: is there text without size, over other text, out of the window,
// cut off, hardly to be told from its ground? Returns one line for each finding, at most thirty.
(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  const name = el => el.tagName.toLowerCase() + (el.id ? "#" + el.id : "") + (typeof el.className === "string" && el.className ? "." + el.className.trim().replace(/\s+/g, ".") : "");
  const quoted = text => JSON.stringify(text.trim().slice(0, 40));
  const say = (what, piece) => found.push(`${what}: ${quoted(piece.text)} in ${name(piece.el)}`);
  const isShown = el => el.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  // A rectangle of text, cut by those of its ancestors that cut. A line clamp is meant.
  function cut(rect, el) {
    let { left, top, right, bottom } = rect, wasCut = false;
    for (let at = el; at && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const box = at.getBoundingClientRect();
      const isMeant = style.webkitLineClamp !== "none" || style.textOverflow === "ellipsis" || /auto|scroll/.test(style.overflow);
      if (!isMeant && (left < box.left - 1 || right > box.right + 1 || top < box.top - 1 || bottom > box.bottom + 1)) wasCut = true;
      left = Math.max(left, box.left); top = Math.max(top, box.top);
      right = Math.min(right, box.right); bottom = Math.min(bottom, box.bottom);
    }
    return { left, top, right, bottom, wasCut };
  }

  const pieces = [];
  const walker = document.createTreeWalker(document.body ?? document.documentElement, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const el = node.parentElement, text = node.data;
    if (!text.trim() || !el || /^(script|style|noscript|title|desc)$/i.test(el.tagName) || !isShown(el)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()];
    const piece = { el, text, node };
    if (rects.every(r => r.width < 1 || r.height < 1)) say("text without size", piece);
    for (const rect of rects) {
      if (rect.width < 1 || rect.height < 1) continue;
      const seen = cut(rect, el);
      if (seen.wasCut) { say("text is cut off", piece); break; }
      if (seen.right - seen.left < 1 || seen.bottom - seen.top < 1) continue;
      if (seen.left < -1 || seen.right > width + 1) { say("text leaves the window", piece); break; }
      pieces.push({ ...piece, rect: seen });
    }
  }
  if (!pieces.length) found.push("the page shows no text");
  if (document.documentElement.scrollWidth > width + 1) {
    found.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${width}`);
  }

  // Overlaps: sorted by their upper edge, only neighbours can meet.
  pieces.sort((a, b) => a.rect.top - b.rect.top);
  pieces.forEach((a, i) => {
    for (let j = i + 1; j < pieces.length && pieces[j].rect.top < a.rect.bottom - 3; j += 1) {
      const b = pieces[j];
      if (a.node === b.node) continue;
      const across = Math.min(a.rect.right, b.rect.right) - Math.max(a.rect.left, b.rect.left);
      const down = Math.min(a.rect.bottom, b.rect.bottom) - Math.max(a.rect.top, b.rect.top);
      if (across > 2 && down > 3) say(`text over ${quoted(b.text)}`, a);
    }
  });

  // Places that are made for text.
  for (const el of document.querySelectorAll("h1, h2, h3, th, td, dt, dd, button, label, a, li, p, text")) {
    if (isShown(el) && !el.textContent.trim() && !el.querySelector("img, svg, input")) found.push(`empty: ${name(el)}`);
  }

  // Contrast, by the formula of WCAG.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  function rgba(colour) {
    if (!colours.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      colours.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return colours.get(colour);
  }
  function ground(el) {
    for (let at = el; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches && /dark/.test(getComputedStyle(document.documentElement).colorScheme) ? [18, 18, 18] : [255, 255, 255];
  }
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const weak = new Set();
  for (const { el, text } of pieces) {
    if (el instanceof SVGElement || weak.has(el)) continue;
    const style = getComputedStyle(el), [a, b] = [light(rgba(style.color)), light(ground(el))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && parseInt(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) { weak.add(el); say(`contrast of ${ratio.toFixed(1)}`, { el, text }); }
  }
  return found.length > 30 ? [...found.slice(0, 30), `and ${found.length - 30} more`] : found;
})()
