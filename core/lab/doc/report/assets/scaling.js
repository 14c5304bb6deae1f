// How metrics depend on what varies. Go has computed the lines.

function drawScaling() {
  const host = document.getElementById("scaling-figure"), drawn = drawnCells(), list = report.doc.scalings.map((s) => ({ ...s, lines: scalingLines(s, drawn) })).filter((s) => s.lines.length);
  const choice = setChoice();
  document.getElementById("scaling").hidden = !list.length && !choice;
  const panels = el("div", { class: "panels" }), figures = list.map((s) => el("figure", {}, el("figcaption", {}, s.title), legendOfScaling(s.lines)));
  panels.append(...figures);
  host.replaceChildren(choice ? el("p", { class: "controls" }, choice) : "", stateLegend(statesOf(list.flatMap((s) => s.lines.flatMap((l) => l.points.map((p) => p.cell))))), panels, ...list.map((s) => folded("scaling " + s.title, s.title + ", as a table", (host) => fillTable(host, s.table))));
  list.forEach((s, i) => {
    const rate = s.metric === "throughput", { unit } = report.metrics.get(s.metric);
    drawChart(figures[i], { label: s.title, curves: s.lines, x: { title: s.x, log: s.log, ticks: s.ticks }, y: { title: s.metric + (rate ? " (op/s)" : ""), log: true, text: rate ? short : (v) => number(v, unit) } });
  });
}

// scalingLines returns the drawn points of each line that has several, and above it the line of its
// floor: what the bare medium moves under the same loads.
function scalingLines(s, drawn = drawnCells()) {
  const unit = report.metrics.get(s.metric).unit, c = report.doc.cells, lines = s.lines.map((l) => ({ ...l, points: l.points.filter((p) => drawn(p.cell)) })).filter((l) => new Set(l.points.map((p) => p.x)).size > 1);
  const rests = restsOf(lines);
  return lines.flatMap((l) => {
    const own = { ...l, dash: dashes[rests.indexOf(restOf(l)) % dashes.length], shape: shapeOf(l.series), points: l.points.map(({ cell, x }) => {
      const m = metricOf(cell, s.metric);
      return { x, y: m.median, yl: m.low, yh: m.high, cell, crossed: failed(cell), dots: dotsOf(cell, null, s.metric), lines: [labelOf(cell), m.line, c.floors[cell], c.states[cell]].filter(Boolean) };
    }) };
    const floor = { series: l.series, floor: true, dash: [2, 3], points: l.points.filter((p) => p.floor).map((p) => ({ x: p.x, y: p.floor, cell: p.cell, lines: ["the floor of " + labelOf(p.cell), `${s.metric} ${number(p.floor, unit)}`] })) };
    return floor.points.length > 1 ? [floor, own] : [own];
  });
}

// restOf names what distinguishes a line from others of its transport.
function restOf(l) { return [report.doc.sets.length > 1 ? report.doc.sets[l.set].name : "", l.rest].filter(Boolean).join(" "); }

function restsOf(lines) { return [...new Set(lines.map(restOf))]; }

// legendOfScaling names the lines without what all of them have.
function legendOfScaling(lines) {
  const own = lines.filter((l) => !l.floor), rests = restsOf(own).map((rest) => rest.split(" "));
  const legend = legendOf(own, rests.map((words) => words.filter((w) => !rests.every((other) => other.includes(w))).join(" ")));
  if (own.length < lines.length) legend.lastChild.append(el("li", {}, key(-1, [2, 3]), "floor of each, above it"));
  return legend;
}

// dotsOf returns the repeats of a cell as dots, with the state of the machine in each. Without xMetric they
// have the x of their median.
function dotsOf(cell, xMetric, yMetric) {
  const c = report.doc.cells, ys = c.repeats[yMetric]?.[cell] || [], xs = xMetric ? c.repeats[xMetric]?.[cell] || [] : null;
  if (ys.length < 2 || (xs && xs.length !== ys.length)) return [];
  const states = c.repeat_states[cell];
  return ys.map((y, i) => ({ x: xs ? xs[i] : null, y, state: states && states.length === ys.length ? states[i] : "" }));
}
