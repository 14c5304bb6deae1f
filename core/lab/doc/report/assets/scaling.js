// How throughput depends on what varies: payload, calls in flight, clients, ranks, and the network.

const scalings = [["value_size", "goodput", "Payload size against goodput"], ["in_flight", "throughput", "Calls in flight against throughput"],
  ["clients", "throughput", "Clients against throughput"], ["ranks", "throughput", "Ranks against throughput"], ["threads", "throughput", "Threads against throughput"],
  ["connections", "setup_connect_all", "Connections of a rank against the time to make them"],
  ["loss", "goodput", "Loss against goodput"], ["loss", "latency_p99", "Loss against p99"],
  ["delay", "goodput", "Delay against goodput"], ["delay", "latency_p99", "Delay against p99"]];
const impairmentUnits = { loss: "%", delay: "ms" };

function drawScaling() {
  const host = document.getElementById("scaling-figure"), list = scalings.map(([name, metric, title]) => ({ metric, title, name, lines: scalingLines(name, metric) })).filter((s) => s.lines.length);
  document.getElementById("scaling").hidden = !list.length;
  const panels = el("div", { class: "panels" }), figures = list.map((s) => el("figure", {}, el("figcaption", {}, s.title), legendOfScaling(s.lines)));
  panels.append(...figures);
  host.replaceChildren(stateLegend(statesOf(list.flatMap((s) => s.lines.flatMap((l) => l.points.map((p) => p.cell))))), panels, ...list.map((s) => folded(`scaling-${s.name}-${s.metric}`, s.title + ", as a table", () => scalingTable(s))));
  list.forEach((s, i) => {
    drawChart(figures[i], { label: s.title, curves: s.lines,
      x: { title: impairmentUnits[s.name] ? `${s.name} (${impairmentUnits[s.name]})` : s.name, log: !impairmentUnits[s.name], text: (v) => (s.name === "value_size" ? bytes(v) : String(v)), ticks: () => [...new Set(s.lines.flatMap((l) => l.points.map((p) => p.x)))].sort((a, b) => a - b) },
      y: { title: s.metric + (s.metric === "throughput" ? " (op/s)" : ""), log: true, text: (v) => (s.metric === "throughput" ? short(v, "op/s") : number(v, report.metrics.get(s.metric).unit)) } });
  });
}

function bytes(v) { return v >= 1 << 20 && v % (1 << 20) === 0 ? v / (1 << 20) + "MiB" : v >= 1024 && v % 1024 === 0 ? v / 1024 + "KiB" : v + "B"; }

// impairment returns the loss in percent, or the delay in milliseconds, of a value of the option network.
function impairment(network, name) {
  const [, number, unit] = (network.split(",").find((part) => part.startsWith(name + "=")) || "=0").match(/=([\d.e+-]+)(%|ns|us|ms|s)?$/) || [];
  return Number(number) * ({ ns: 1e-6, us: 1e-3, s: 1e3 }[unit] || 1);
}

// scalingLines returns a line for each configuration with several values of an option, closed loops only,
// and above it the line of its floor: what the bare medium moves under the same loads.
function scalingLines(name, metric) {
  const d = report.doc, connections = name === "connections", impaired = impairmentUnits[name] !== undefined, plain = connections || impaired;
  const at = d.axes.findIndex((a) => impaired ? a.name === "network" : a.name === name && !a.own && a.values.every((v) => Number(v) > 0));
  if (at < 0 && !connections) return [];
  const lines = new Map(), valueOf = (cell) => d.axes[at].values[d.cells.axes[at][cell]];
  const of = (cell) => (connections ? d.cells.connections[cell] : impaired ? impairment(valueOf(cell) || "", name) : Number(valueOf(cell)));
  const free = connections ? ["clients", "daemons", "ranks"] : impaired ? ["address"] : []; // options that follow from x
  for (const cell of shownCells) {
    const m = metricOf(cell, metric), x = of(cell);
    if ((d.cells.open[cell] && !plain) || !m || !(impaired ? x >= 0 : x > 0)) continue;
    const rest = d.axes.map((a, i) => {
      if (i === at) return impaired ? (valueOf(cell) || "").split(",").filter((part) => part.includes("=") && !part.startsWith(name + "=")).join(",") : "";
      return free.includes(a.name) || d.cells.axes[i][cell] < 0 ? "" : `${a.name}=${a.shown[d.cells.axes[i][cell]]}`;
    }).filter(Boolean).join(" ");
    const key = [d.cells.set[cell], d.cells.series[cell], rest].join("|");
    if (!lines.has(key)) lines.set(key, { series: d.cells.series[cell], set: d.cells.set[cell], rest, cells: [] });
    lines.get(key).cells.push({ cell, m, x });
  }
  const kept = [...lines.values()].filter((l) => new Set(l.cells.map((c) => c.x)).size > 1), rests = [...new Set(kept.map((l) => l.rest))];
  return kept.flatMap((l) => {
    l.cells.sort((a, b) => a.x - b.x);
    const own = { series: l.series, rest: l.rest, set: l.set, dash: dashes[rests.indexOf(l.rest) % dashes.length], shape: shapes[l.series % shapes.length], points: l.cells.map(({ cell, m, x }) => ({
      x, y: m.median, yl: m.low, yh: m.high, cell, crossed: failed(cell), dots: dotsOf(cell, null, metric), lines: [labelOf(cell), `${metric} ${value(m)} (${interval(m)})`, ...(plain ? [] : [floorText(cell), report.doc.cells.states[cell]])].filter(Boolean) })) };
    if (plain) return [own];
    const floor = { series: l.series, floor: true, dash: [2, 3], points: l.cells.map(({ cell, m, x }) => {
      const of = metricOf(cell, "op_time_ratio") || metricOf(cell, "floor_ratio");
      return of && { x, y: m.median * of.median, cell, lines: ["the floor of " + labelOf(cell), `${metric} ${number(m.median * of.median, m.unit)}`] };
    }).filter(Boolean) };
    return floor.points.length > 1 ? [floor, own] : [own];
  });
}

function floorText(cell) {
  const limit = limitOf(cell);
  return limit ? `${value(limit.ratio)} x the floor (${limit.of})` : "";
}

function legendOfScaling(lines) {
  const d = report.doc, own = lines.filter((l) => !l.floor), rests = new Set(own.map((l) => l.rest)).size > 1, list = own.slice(0, 12);
  return el("ul", { class: "legend plain" }, list.map((l) => el("li", {}, key(l.series, l.dash, l.shape), [d.sets.length > 1 ? d.sets[l.set].name : "", seriesName(l.series), rests ? l.rest : ""].filter(Boolean).join(" "))),
    own.length > list.length ? el("li", {}, `and ${own.length - list.length} more`) : null,
    lines.some((l) => l.floor) ? el("li", {}, key(-1, [2, 3]), "floor of each, above it") : null);
}

function scalingTable(s) {
  return table(s.title, [{ name: "cell", node: (p) => cellLink(p.cell), key: (p) => labelOf(p.cell) }, { name: s.name, right: true, text: (p) => (s.name === "value_size" ? bytes(p.x) : String(p.x)), key: (p) => p.x },
    metricAt(s.metric), { name: "95% interval", right: true, text: (p) => interval(metricOf(p.cell, s.metric)) },
    ...(s.name === "connections" || impairmentUnits[s.name] ? [] : [{ name: "floor", right: true, text: (p) => limitOf(p.cell) ? value(limitOf(p.cell).ratio) + " x" : "-", key: (p) => limitOf(p.cell)?.ratio.median }])], s.lines.filter((l) => !l.floor).flatMap((l) => l.points));
}

function metricAt(name) {
  return { name, right: true, text: (p) => value(metricOf(p.cell, name)), key: (p) => metricOf(p.cell, name)?.median };
}

// dotsOf returns the repeats of a cell as dots, with the state of the machine in each. Without xMetric they
// have the x of their median.
function dotsOf(cell, xMetric, yMetric) {
  const c = report.doc.cells, ys = c.repeats[yMetric]?.[cell] || [], xs = xMetric ? c.repeats[xMetric]?.[cell] || [] : null;
  if (ys.length < 2 || (xs && xs.length !== ys.length)) return [];
  const states = c.repeat_states[cell];
  return ys.map((y, i) => ({ x: xs ? xs[i] : null, y, state: states && states.length === ys.length ? states[i] : "" }));
}
