// Filters by series, sets, the load, and values of the options that vary. They are in the page's address.

const filter = { series: new Set(), sets: new Set(), load: "", axes: new Map() };
let shownCells = [];

function visible(cell) {
  const c = report.doc.cells;
  if (!filter.series.has(c.series[cell]) || !filter.sets.has(c.set[cell])) return false;
  if (filter.load && c.load[cell] !== filter.load) return false;
  for (const [i, v] of filter.axes) if (c.axes[i][cell] !== v && c.axes[i][cell] !== -1) return false;
  return true;
}

function resetFilter() {
  filter.series = new Set(report.doc.series.keys());
  filter.sets = new Set(report.doc.sets.keys());
  filter.load = "";
  filter.axes = new Map();
}

// choices returns the reader's filters by name, because numbers change when cells are added.
function choices() {
  const d = report.doc;
  return {
    hide: [...d.series.keys()].filter((i) => !filter.series.has(i)).map(seriesName),
    without: [...d.sets.keys()].filter((i) => !filter.sets.has(i)).map((i) => d.sets[i].name),
    load: filter.load,
    axes: [...filter.axes].map(([i, v]) => [d.axes[i].name, d.axes[i].values[v]]),
  };
}

function restore(chosen) {
  const d = report.doc;
  resetFilter();
  for (const i of d.series.keys()) if (chosen.hide.includes(seriesName(i))) filter.series.delete(i);
  for (const i of d.sets.keys()) if (chosen.without.includes(d.sets[i].name)) filter.sets.delete(i);
  if (d.cells.load.includes(chosen.load)) filter.load = chosen.load;
  for (const [name, v] of chosen.axes) {
    const i = d.axes.findIndex((a) => a.name === name), at = i < 0 ? -1 : d.axes[i].values.indexOf(v);
    if (at >= 0) filter.axes.set(i, at);
  }
}

// chosenInAddress returns the choices that the page's address has.
function chosenInAddress() {
  const q = new URLSearchParams(location.search), own = ["hide", "without", "load"];
  return { hide: q.getAll("hide"), without: q.getAll("without"), load: q.get("load") || "", axes: [...q].filter(([name]) => !own.includes(name)) };
}

function writeAddress() {
  const q = new URLSearchParams(), c = choices();
  for (const name of c.hide) q.append("hide", name);
  for (const name of c.without) q.append("without", name);
  if (c.load) q.set("load", c.load);
  for (const [name, v] of c.axes) q.append(name, v);
  const text = q.toString();
  if (text !== location.search.slice(1)) history.replaceState(history.state, "", location.pathname + (text && "?" + text) + location.hash);
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
  for (const e of document.querySelectorAll("#main [data-cells]")) e.classList.toggle("off", !allVisible(JSON.parse(e.dataset.cells.replaceAll(" ", ","))));
  for (const list of document.querySelectorAll("[data-bars]")) {
    list.hidden = (list.querySelector("[data-c]") !== null && !list.querySelector("[data-c]:not(.off)")) || (list.dataset.diff !== undefined && !comparesShown(report.doc.diffs[list.dataset.diff]));
    countMore(list);
    shorten(list);
  }
  document.getElementById("shown").textContent = `${shownCells.length} of ${count(report.doc.cells.label.length, "cell")}`;
}

// comparesShown reports whether both sets of a comparison are shown.
function comparesShown(diff) { return filter.sets.has(diff.old) && filter.sets.has(diff.new); }

// allVisible reports whether a change is one of visible cells only. A cell that is not known counts as visible.
function allVisible(cells) { return cells.every((c) => c < 0 || visible(c)); }

// countMore counts the visible rows that a list leaves to its table.
function countMore(list) {
  const more = list.querySelector(".more-rows"), { diff, metric, stack } = list.dataset;
  if (!more) return;
  const all = diff === undefined ? report.doc.tables.stacks[stack].table.cells.filter(visible) : report.doc.diffs[diff].changes.filter((c) => c.metric === metric && allVisible(c.cells));
  more.textContent = all.length - list.querySelectorAll(".bar-row:not(.ticks, .off)").length;
  more.parentElement.hidden = more.textContent === "0";
}

// shorten shows only the first bars of a long list until the reader asks for all. Of a list by load it shows
// whole loads, and all of the newest set.
function shorten(list) {
  const barsAtOnce = Number(list.dataset.bars) || 15;
  const rows = [...list.querySelectorAll(".bar-row[data-c]:not(.off)")], all = list.dataset.all === "yes";
  const load = (row) => row.closest(".load"), set = (row) => report.doc.cells.set[row.dataset.c];
  let first = barsAtOnce;
  while (first < rows.length && load(rows[first]) && (load(rows[first]) === load(rows[first - 1]) || set(rows[first]) === set(rows[0]))) first++;
  rows.forEach((row, i) => row.classList.toggle("rest", !all && i >= first));
  list.querySelector(".more-bars")?.remove();
  if (rows.length <= first) return;
  list.append(el("button", { type: "button", class: "more-bars", onclick: () => {
    list.dataset.all = all ? "no" : "yes";
    shorten(list);
    list.querySelector(".more-bars").focus();
  } }, all ? `only the first ${first}` : `all ${rows.length}`));
}

function drawFilters(changed) {
  const form = document.getElementById("filters"), d = report.doc;
  const set = (where, i) => (e) => {
    e.target.checked ? where.add(i) : where.delete(i);
    changed();
  };
  const chips = (legend, list, where, name) => el("fieldset", { class: "chips" }, el("legend", {}, legend), list.map(([i, text]) =>
    el("label", {}, el("input", { type: "checkbox", name, value: i, checked: where.has(i), onchange: set(where, i) }), name === "series" ? swatch(i) : null, text)));
  const loads = [...new Set(d.cells.load)].filter(Boolean);
  form.replaceChildren(
    chips("Transports", d.series.map((_, i) => [i, seriesName(i)]), filter.series, "series"),
    d.sets.length > 1 ? chips("Sets", d.sets.map((s, i) => [i, s.name]).reverse(), filter.sets, "sets") : "",
    loads.length > 1 ? el("label", { class: "axis" }, "load", el("select", { name: "load", onchange: (e) => {
      filter.load = e.target.value;
      changed();
    } }, el("option", { value: "" }, "all"), loads.map((text) => el("option", { value: text, selected: filter.load === text }, text)))) : "",
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
