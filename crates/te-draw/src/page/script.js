"use strict";
const paths = JSON.parse(document.getElementById("paths").textContent);
const tip = document.getElementById("tip");
const spots = [...document.querySelectorAll(".hot")];
const told = new Map();
const names = new Map();
for (const spot of spots) {
  const title = spot.querySelector("title");
  told.set(spot, title.textContent);
  if (/^[ng]\d+$/.test(spot.dataset.k)) names.set(spot.dataset.k, title.textContent.split("\n")[0]);
  title.remove();
}
const order = ["NV", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS"];
let marked = [];
function mark(spot, word) {
  spot.classList.add(word);
  marked.push([spot, word]);
}
function clear() {
  for (const [spot, word] of marked) spot.classList.remove(word);
  marked = [];
  tip.hidden = true;
}
function near(key) {
  const groups = new Map();
  for (const [other, word] of Object.entries(paths[key] || {})) {
    if (!groups.has(word)) groups.set(word, []);
    groups.get(word).push(names.get(other));
  }
  const rank = (word) => order.findIndex((start) => word.startsWith(start));
  return [...groups].sort((a, b) => rank(a[0]) - rank(b[0])).map(([word, list]) => "\n" + word + ": " + list.join(", ")).join("");
}
function show(spot) {
  clear();
  const keys = spot.dataset.k.split(" ").filter(Boolean);
  for (const other of spots) {
    const theirs = other.dataset.k.split(" ").filter(Boolean);
    if (other === spot) continue;
    if (theirs.some((key) => keys.includes(key)) && (keys.length === 1 || theirs.length === 1)) mark(other, "on");
    const word = keys.length === 1 && theirs.length === 1 && paths[keys[0]] && paths[keys[0]][theirs[0]];
    if (word) mark(other, word.replace(/\d+$/, ""));
  }
  const [first, ...rest] = told.get(spot).split("\n");
  const head = document.createElement("b");
  head.textContent = first;
  tip.replaceChildren(head, rest.join("\n") + (keys.length === 1 ? near(keys[0]) : ""));
  tip.hidden = false;
}
function place(event) {
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 16, innerWidth - box.width - 8);
  const below = event.clientY + 18;
  const y = below + box.height + 8 > innerHeight ? event.clientY - box.height - 12 : below;
  tip.style.left = Math.max(8, x) + "px";
  tip.style.top = Math.max(8, y) + "px";
}
document.addEventListener("pointerover", (event) => {
  const spot = event.target.closest && event.target.closest(".hot");
  if (spot) show(spot); else clear();
});
document.addEventListener("pointermove", (event) => { if (!tip.hidden) place(event); });
