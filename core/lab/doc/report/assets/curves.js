// Throughput against latency, and percentile spectra.

const look = { closed: { x: false, y: true }, open: { x: false, y: true }, spectrum: { y: true }, hidden: new Set(), group: null };

function restOf(curve) {
  const name = report.doc.series[curve.series].transport;
  const rest = curve.label.startsWith(name) ? curve.label.slice(name.length).trim() : curve.label;
  return (report.doc.sets.length > 1 ? report.doc.sets[curve.set].name + " " : "") + rest;
}

function drawCurves() {
  for (const open of [false, true]) {
    const id = open ? "open" : "closed", host = document.getElementById("curves-" + id);
    const curves = report.doc.curves.filter((c) => c.open === open)
      .map((c) => ({ ...c, kneeCell: c.knee === undefined ? -1 : c.points[c.knee].cell, points: c.points.filter((p) => visible(p.cell)) })).filter((c) => c.points.length);
    host.hidden = curves.length === 0;
    if (!curves.length) {
      host.replaceChildren();
      continue;
    }
    const rests = [...new Set(curves.map(restOf))];
    const redraw = () => drawCurves();
    const panels = el("div", { class: "panels three" });
    host.replaceChildren(el("h3", {}, host.dataset.title),
      el("p", { class: "controls" }, toggle("logarithmic rate", look[id].x, (on) => { look[id].x = on; redraw(); }), toggle("logarithmic time", look[id].y, (on) => { look[id].y = on; redraw(); })),
      legendOf(curves, rests, redraw), stateLegend(statesOf(curves.flatMap((c) => c.points.map((p) => p.cell)))), panels, folded("curves-" + id, "The points, as a table", (host) => fillTable(host, report.doc.tables.curves)));
    const figures = ["p50", "p99", "p999"].map((p) => el("figure", {}, el("figcaption", {}, p.replace("p999", "p99.9"))));
    panels.append(...figures); // before drawing, since each one's width depends on the others
    ["p50", "p99", "p999"].forEach((p, i) => panel(figures[i], curves.filter((c) => !look.hidden.has(restOf(c))), rests, open, p, look[id]));
  }
}

// legendOf lists transports by colour and shape, and configurations, which can be hidden, by dash.
function legendOf(curves, rests, redraw) {
  const series = [...new Set(curves.map((c) => c.series))];
  return el("div", {},
    el("ul", { class: "legend plain" }, series.map((s) => el("li", {}, key(s, [], shapes[s % shapes.length]), seriesName(s)))),
    rests.length < 2 ? null : el("ul", { class: "legend" }, rests.map((rest, i) => el("li", {}, el("button", {
      type: "button", "aria-pressed": String(!look.hidden.has(rest)), onclick: () => {
        look.hidden.has(rest) ? look.hidden.delete(rest) : look.hidden.add(rest);
        redraw();
      },
    }, key(-1, dashes[i % dashes.length]), rest || "no other options")))));
}

function dashOf(rests, curve) { return dashes[rests.indexOf(restOf(curve)) % dashes.length]; }

function panel(figure, curves, rests, open, p, scale) {
  const metric = (open ? "response_" : "latency_") + p, name = p.replace("p999", "p99.9");
  drawChart(figure, {
    label: `${name} against throughput, ${open ? "open" : "closed"} loop`,
    x: { title: "throughput (op/s)", log: scale.x, text: (v) => short(v, "op/s") }, y: { title: `${open ? "response" : "service"} time, ${name}`, log: scale.y, text: (v) => number(v, "ns") },
    curves: curves.map((c) => ({
      series: c.series, dash: dashOf(rests, c), shape: shapes[c.series % shapes.length],
      points: c.points.map((q) => {
        const x = metricOf(q.cell, "throughput"), y = metricOf(q.cell, metric);
        return x && y && { x: x.median, xl: x.low, xh: x.high, y: y.median, yl: y.low, yh: y.high, cell: q.cell, past: q.past, crossed: Boolean(q.unusable), dots: dotsOf(q.cell, "throughput", metric), knee: c.kneeCell === q.cell,
          lines: [labelOf(q.cell), `throughput ${value(x)} (${interval(x)})`, `${metric} ${value(y)} (${interval(y)})`, q.unusable ? "unusable: " + q.unusable : q.past ? "past the peak" : "", c.kneeCell === q.cell ? "the knee: throughput over p50 is highest" : "", count(x.n, "repeat")].filter(Boolean) };
      }).filter(Boolean),
    })),
  });
}

function short(v, unit) { return number(v, unit).replace(/ ?op\/s$/, "").trim(); }

// ownOptions formats the transport's own options of a cell that vary.
function ownOptions(cell) {
  const d = report.doc, list = [];
  d.axes.forEach((a, i) => { if (a.own && d.cells.axes[i][cell] >= 0) list.push(`${a.name}=${a.shown[d.cells.axes[i][cell]]}`); });
  return list.join(" ");
}

// groups returns the cells of each load, over all transports and their own options.
function groups() {
  const all = new Map();
  for (const cell of shownCells) {
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
      x: 1 / (1 - grid[i]), y: v, cell, lines: [labelOf(cell), `${shareText(grid[i])} of the ${kind} times are at most ${number(v, "ns")}`] })) }));
}

let spectrumTurn = 0;
async function drawSpectrum() {
  const host = document.getElementById("spectrum-figure"), all = groups(), turn = ++spectrumTurn;
  if (!all.size) return host.replaceChildren(el("p", { class: "note" }, "No cell is left by the filters."));
  if (!all.has(look.group)) look.group = [...all].reduce((best, g) => (g[1].length > best[1].length ? g : best))[0];
  const cells = all.get(look.group).slice(0, 24), details = await Promise.all(cells.map(detailOf));
  if (turn !== spectrumTurn) return;
  const curves = [], variants = [...new Set(cells.map((c) => ownOptions(c)).filter(Boolean))];
  cells.forEach((cell, i) => {
    for (const c of spectrumCurves(cell, details[i])) curves.push({ ...c, dash: c.kind === "response" ? [6, 4] : spectrumDash(variants.indexOf(ownOptions(cell))) });
  });
  const tables = details.map((d) => d.spectrum).filter(Boolean);
  const figure = el("figure");
  host.replaceChildren(
    el("p", { class: "controls" }, el("label", {}, "Load ", el("select", { id: "spectrum-load", onchange: (e) => { look.group = e.target.value; drawSpectrum(); } },
      [...all.keys()].map((name) => el("option", { value: name, selected: name === look.group }, name)))),
    toggle("logarithmic time", look.spectrum.y, (on) => { look.spectrum.y = on; drawSpectrum(); })),
    el("ul", { class: "legend plain" }, curves.map((c) => el("li", {}, key(c.series, c.dash), `${report.doc.sets.length > 1 ? report.doc.sets[report.doc.cells.set[c.cell]].name + " " : ""}${[seriesName(c.series), ownOptions(c.cell)].filter(Boolean).join(" ")}, ${c.kind} time`))),
    figure, tables.length ? folded("spectrum", "The percentiles, as a table", (d) => fillTable(d, { ...tables[0], rows: tables.flatMap((t) => t.rows) })) : "");
  const floors = floorsOf(cells);
  if (!curves.length) return figure.append(el("p", { class: "note" }, "These cells have no histograms."));
  const longest = Math.max(...curves.map((c) => c.points.length));
  drawChart(figure, { label: "Percentile spectrum, " + look.group, height: 320, curves, levels: floors,
    x: { title: "percentile: 1/(1-p), logarithmic", log: true, text: (v) => shareText(1 - 1 / v), range: [1, 1.3 / (1 - report.doc.grid[longest - 1])], ticks: tens }, y: { title: "time", log: look.spectrum.y, text: (v) => number(v, "ns") } });
}

// floorsOf returns the lowest and the highest round trip of the bare medium under the cells, or one if
// they are nearly the same.
function floorsOf(cells) {
  const list = cells.map((c) => metricOf(c, "floor")?.median).filter((v) => v > 0).sort((a, b) => a - b);
  if (!list.length) return [];
  const low = list[0], high = list[list.length - 1], text = (v) => `floor ${number(v, "ns")}`;
  return high < 1.2 * low ? [{ y: list[Math.floor(list.length / 2)], text: text(list[Math.floor(list.length / 2)]) }] : [{ y: low, text: text(low) + ", lowest" }, { y: high, text: text(high) + ", highest" }];
}

// spectrumDash returns the dash for values of a transport's own options.
function spectrumDash(variant) { return variant < 1 ? [] : dashes[2 + ((variant - 1) % (dashes.length - 2))]; }

function tens(low, high) {
  const list = low <= 2 && high >= 2 ? [2] : [];
  for (let v = 10; v <= high; v *= 10) if (v >= low) list.push(v);
  return list;
}

// shareText formats 0.999 as 99.9%.
function shareText(share) {
  const nines = share >= 0.9 ? Math.max(0, Math.ceil(-Math.log10(1 - share) - 1e-9) - 1) : 0;
  return Number((100 * share).toFixed(Math.min(8, nines))) + "%";
}
