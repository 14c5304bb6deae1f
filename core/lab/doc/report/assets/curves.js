// Throughput against latency, and percentile spectra.

const look = { closed: { x: true, y: true }, open: { x: true, y: true }, spectrum: { y: true }, hidden: new Set(), group: null, set: "" };

// setsAtOnce is the number of sets that lines of one chart may come from, unless the reader wants all.
const setsAtOnce = 2, allSets = "all sets";

// drawnSets returns the sets of the visible cells, the newest first, and which of them charts of lines draw.
function drawnSets() {
  const d = report.doc, shown = [...new Set(shownCells.map((c) => d.cells.set[c]))].sort((a, b) => b - a);
  const one = shown.find((i) => d.sets[i].name === look.set) ?? shown[0];
  return { shown, drawn: new Set(shown.length > setsAtOnce && look.set !== allSets ? [one] : shown) };
}

// drawnCells returns a test of whether a chart of lines draws a cell.
function drawnCells() {
  const { drawn } = drawnSets();
  return (cell) => visible(cell) && drawn.has(report.doc.cells.set[cell]);
}

// setChoice returns the control of the drawn set, or null if all are drawn anyway.
function setChoice() {
  const { shown, drawn } = drawnSets(), names = [...shown.map((i) => report.doc.sets[i].name), allSets];
  if (shown.length <= setsAtOnce) return null;
  const chosen = drawn.size > 1 ? allSets : report.doc.sets[[...drawn][0]].name;
  return el("label", {}, "Set ", el("select", { name: "drawn-set", onchange: (e) => { look.set = e.target.value; redrawCurves(); } },
    names.map((name) => el("option", { value: name, selected: name === chosen }, name))));
}

function drawCurves() {
  const drawn = drawnCells();
  for (const open of [false, true]) {
    const id = open ? "open" : "closed", host = document.getElementById("curves-" + id);
    const curves = report.doc.curves.filter((c) => c.open === open).map((c) => ({ ...c, points: c.points.filter((p) => drawn(p.cell)) })).filter((c) => c.points.length);
    host.hidden = curves.length === 0;
    if (!curves.length) {
      host.replaceChildren();
      continue;
    }
    const rests = [...new Set(curves.map((c) => c.rest))];
    const redraw = () => drawCurves();
    const panels = el("div", { class: "panels three" });
    host.replaceChildren(el("h3", {}, host.dataset.title),
      el("p", { class: "controls" }, setChoice(), toggle("logarithmic rate", look[id].x, (on) => { look[id].x = on; redraw(); }), toggle("logarithmic time", look[id].y, (on) => { look[id].y = on; redraw(); })),
      legendOf(curves, rests, redraw), stateLegend(statesOf(curves.flatMap((c) => c.points.map((p) => p.cell)))), panels, folded("curves-" + id, "The points, as a table", (host) => fillTable(host, report.doc.tables.curves)));
    const figures = ["p50", "p99", "p999"].map((p) => el("figure", {}, el("figcaption", {}, p.replace("p999", "p99.9"))));
    panels.append(...figures); // before drawing, since each one's width depends on the others
    ["p50", "p99", "p999"].forEach((p, i) => panel(figures[i], curves.filter((c) => !look.hidden.has(c.rest)), rests, open, p, look[id]));
  }
}

// legendOf lists transports by colour and shape, and configurations by dash; with redraw, a click on one
// hides it.
function legendOf(curves, rests, redraw) {
  const series = [...new Set(curves.map((c) => c.series))], named = (rest, i) => [key(-1, dashes[i % dashes.length]), rest || "no other options"];
  return el("div", {},
    el("ul", { class: "legend plain" }, series.map((s) => el("li", {}, key(s, [], shapeOf(s)), seriesName(s)))),
    rests.length < 2 ? null : el("ul", { class: redraw ? "legend" : "legend plain" }, rests.map((rest, i) => el("li", {}, redraw ? el("button", {
      type: "button", "aria-pressed": String(!look.hidden.has(rest)), onclick: () => {
        look.hidden.has(rest) ? look.hidden.delete(rest) : look.hidden.add(rest);
        redraw();
      },
    }, named(rest, i)) : named(rest, i)))));
}

function dashOf(rests, curve) { return dashes[rests.indexOf(curve.rest) % dashes.length]; }

function panel(figure, curves, rests, open, p, scale) {
  const metric = (open ? "response_" : "latency_") + p, name = p.replace("p999", "p99.9");
  drawChart(figure, {
    label: `${name} against throughput, ${open ? "open" : "closed"} loop`,
    x: { title: "throughput (op/s)", log: scale.x, text: (v) => short(v) }, y: { title: `${open ? "response" : "service"} time, ${name}`, log: scale.y, text: (v) => number(v, "ns") },
    curves: curves.map((c) => ({
      series: c.series, dash: dashOf(rests, c), shape: shapeOf(c.series),
      points: c.points.map((q) => {
        const x = metricOf(q.cell, "throughput"), y = metricOf(q.cell, metric);
        return x && y && { x: x.median, xl: x.low, xh: x.high, y: y.median, yl: y.low, yh: y.high, cell: q.cell, past: q.past, crossed: Boolean(q.unusable), dots: dotsOf(q.cell, "throughput", metric), knee: c.knee === q.cell,
          lines: [labelOf(q.cell), x.line, y.line, q.unusable ? "unusable: " + q.unusable : q.past ? "past the peak" : "", c.knee === q.cell ? "the knee: throughput over p50 is highest" : "", report.doc.cells.counted[q.cell]].filter(Boolean) };
      }).filter(Boolean),
    })),
  });
}

// short formats a rate on an axis whose title has the unit.
function short(v) { return number(v, "op/s").replace(/ ?op\/s$/, ""); }

// groups returns the cells of each load, over all transports and their own options.
function groups() {
  const all = new Map();
  for (const cell of shownCells.filter(drawnCells())) {
    if (report.doc.cells.status[cell] !== "measured") continue;
    const name = report.doc.cells.load[cell] || "all";
    all.set(name, [...(all.get(name) || []), cell]);
  }
  return all;
}

// spectrumCurves returns the merged percentiles of a cell as curves.
function spectrumCurves(cell, detail) {
  const grid = report.doc.grid;
  return [["service", detail.service], ["response", detail.response]].filter(([, values]) => values?.length).map(([kind, values]) => ({
    series: report.doc.cells.series[cell], kind, cell, points: values.map((v, i) => ({
      x: grid[i].x, y: v, cell, lines: [labelOf(cell), `${grid[i].text} of the ${kind} times are at most ${number(v, "ns")}`] })) }));
}

let spectrumTurn = 0;
async function drawSpectrum() {
  const host = document.getElementById("spectrum-figure"), all = groups(), turn = ++spectrumTurn;
  if (!all.size) return host.replaceChildren(el("p", { class: "note" }, "No cell is left by the filters."));
  if (!all.has(look.group)) look.group = [...all].reduce((best, g) => (g[1].length > best[1].length ? g : best))[0];
  const cells = all.get(look.group).slice(0, 24), details = await Promise.all(cells.map(detailOf));
  if (turn !== spectrumTurn) return;
  const curves = [], variants = [...new Set(cells.map((c) => report.doc.cells.own[c]).filter(Boolean))];
  cells.forEach((cell, i) => {
    for (const c of spectrumCurves(cell, details[i])) curves.push({ ...c, dash: c.kind === "response" ? [6, 4] : spectrumDash(variants.indexOf(report.doc.cells.own[cell])) });
  });
  const tables = details.map((d) => d.spectrum).filter(Boolean);
  const figure = el("figure");
  host.replaceChildren(
    el("p", { class: "controls" }, setChoice(), el("label", {}, "Load ", el("select", { id: "spectrum-load", onchange: (e) => { look.group = e.target.value; drawSpectrum(); } },
      [...all.keys()].map((name) => el("option", { value: name, selected: name === look.group }, name)))),
    toggle("logarithmic time", look.spectrum.y, (on) => { look.spectrum.y = on; drawSpectrum(); })),
    el("ul", { class: "legend plain" }, curves.map((c) => el("li", {}, key(c.series, c.dash), `${report.doc.sets.length > 1 ? report.doc.sets[report.doc.cells.set[c.cell]].name + " " : ""}${[seriesName(c.series), report.doc.cells.own[c.cell]].filter(Boolean).join(" ")}, ${c.kind} time`))),
    figure, tables.length ? folded("spectrum", "The percentiles, as a table", (d) => fillTable(d, { ...tables[0], rows: tables.flatMap((t) => t.rows) })) : "");
  const floors = floorsOf(cells);
  if (!curves.length) return figure.append(el("p", { class: "note" }, "These cells have no histograms."));
  const longest = Math.max(...curves.map((c) => c.points.length));
  drawChart(figure, { label: "Percentile spectrum, " + look.group, height: 320, curves, levels: floors,
    x: { title: "percentile: 1/(1-p), logarithmic", log: true, range: [1, 1.3 * report.doc.grid[longest - 1].x], ticks: report.doc.ticks }, y: { title: "time", log: look.spectrum.y, text: (v) => number(v, "ns") } });
}

// floorsOf returns the lowest and the highest round trip of the bare medium under the cells, or one if
// they are nearly the same.
function floorsOf(cells) {
  const list = cells.map((c) => metricOf(c, "floor")).filter((m) => m?.median > 0).sort((a, b) => a.median - b.median);
  if (!list.length) return [];
  const low = list[0], high = list[list.length - 1], level = (m, which) => ({ y: m.median, text: `floor ${m.text}${which}` });
  return high.median < 1.2 * low.median ? [level(list[Math.floor(list.length / 2)], "")] : [level(low, ", lowest"), level(high, ", highest")];
}

// spectrumDash returns the dash for values of a transport's own options.
function spectrumDash(variant) { return variant < 1 ? [] : dashes[2 + ((variant - 1) % (dashes.length - 2))]; }
