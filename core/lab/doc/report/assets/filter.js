// Filters by series, sets, and values of the options that vary.

const filter = { series: new Set(), sets: new Set(), axes: new Map() };
let shownCells = [];

function visible(cell) {
  const c = report.doc.cells;
  if (!filter.series.has(c.series[cell]) || !filter.sets.has(c.set[cell])) return false;
  for (const [i, v] of filter.axes) if (c.axes[i][cell] !== v && c.axes[i][cell] !== -1) return false;
  return true;
}

function resetFilter() {
  filter.series = new Set(report.doc.series.keys());
  filter.sets = new Set(report.doc.sets.keys());
  filter.axes = new Map();
}

// applyFilter sets shownCells and hides the drawings of other cells.
function applyFilter() {
  shownCells = report.doc.cells.label.map((_, i) => i).filter(visible);
  const on = new Set(shownCells);
  for (const e of document.querySelectorAll("#main [data-c]")) e.classList.toggle("off", !on.has(Number(e.dataset.c)));
  for (const row of document.querySelectorAll("#heat .maps tbody tr")) row.hidden = !row.querySelector("a:not(.off)");
  const maps = [...document.querySelectorAll("#heat figure")];
  for (const map of maps) map.hidden = !map.querySelector("tbody tr:not([hidden])");
  document.getElementById("heat-none").hidden = maps.some((map) => !map.hidden);
  for (const list of document.querySelectorAll("[data-bars]")) {
    list.hidden = list.querySelector("[data-c]") !== null && !list.querySelector("[data-c]:not(.off)");
    shorten(list);
  }
  document.getElementById("shown").textContent = `${shownCells.length} of ${count(report.doc.cells.label.length, "cell")}`;
}

const barsAtOnce = 15;

// shorten shows only the first bars of a long list until the reader asks for all.
function shorten(list) {
  const rows = [...list.querySelectorAll(".bar-row[data-c]:not(.off)")], all = list.dataset.all === "yes";
  rows.forEach((row, i) => row.classList.toggle("rest", !all && i >= barsAtOnce));
  list.querySelector(".more-bars")?.remove();
  if (rows.length <= barsAtOnce) return;
  list.append(el("button", { type: "button", class: "more-bars", onclick: () => {
    list.dataset.all = all ? "no" : "yes";
    shorten(list);
    list.querySelector(".more-bars").focus();
  } }, all ? `only the first ${barsAtOnce}` : `all ${rows.length}`));
}

function drawFilters(changed) {
  const form = document.getElementById("filters"), d = report.doc;
  const set = (where, i) => (e) => {
    e.target.checked ? where.add(i) : where.delete(i);
    changed();
  };
  const chips = (legend, list, where, name) => el("fieldset", { class: "chips" }, el("legend", {}, legend), list.map((text, i) =>
    el("label", {}, el("input", { type: "checkbox", name, value: i, checked: where.has(i), onchange: set(where, i) }), name === "series" ? swatch(i) : null, text)));
  form.replaceChildren(
    chips("Transports", d.series.map((_, i) => seriesName(i)), filter.series, "series"),
    d.sets.length > 1 ? chips("Sets", d.sets.map((s) => s.name), filter.sets, "sets") : "",
    ...d.axes.map((a, i) => el("label", { class: "axis" }, a.name,
      el("select", { name: "axis-" + i, onchange: (e) => {
        e.target.value === "" ? filter.axes.delete(i) : filter.axes.set(i, Number(e.target.value));
        changed();
      } }, el("option", { value: "" }, "all"), a.shown.map((text, v) => el("option", { value: v, selected: filter.axes.get(i) === v }, text === "" ? "(empty)" : text))))),
    el("button", { type: "button", id: "reset", onclick: () => {
      resetFilter();
      drawFilters(changed);
      changed();
      document.getElementById("reset").focus();
    } }, "reset"),
    el("output", { id: "shown", "aria-live": "polite" }));
  form.onsubmit = (e) => e.preventDefault();
}
