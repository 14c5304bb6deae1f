// Charts. uPlot draws axes, scales and zoom; this file draws points and whiskers, and handles hover
// and the keyboard.

const shapes = ["circle", "square", "triangle", "diamond", "down", "plus", "cross", "star"];
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 4], [4, 2, 1, 2]];
const charts = new Set();

// shapeOf returns the shape of a series' points.
function shapeOf(series) { return shapes[report.doc.series[series].mark]; }

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function tracePath(c, shape, x, y, r) {
  const polygon = (...p) => {
    c.moveTo(x + p[0] * r, y + p[1] * r);
    for (let i = 2; i < p.length; i += 2) c.lineTo(x + p[i] * r, y + p[i + 1] * r);
    c.closePath();
  };
  c.beginPath();
  if (shape === "circle") c.arc(x, y, r, 0, 7);
  else if (shape === "square") c.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
  else if (shape === "triangle") polygon(0, -1.2, 1.1, 0.8, -1.1, 0.8);
  else if (shape === "down") polygon(0, 1.2, 1.1, -0.8, -1.1, -0.8);
  else if (shape === "diamond") polygon(0, -1.3, 1.1, 0, 0, 1.3, -1.1, 0);
  else if (shape === "plus") polygon(-0.4, -1.2, 0.4, -1.2, 0.4, -0.4, 1.2, -0.4, 1.2, 0.4, 0.4, 0.4, 0.4, 1.2, -0.4, 1.2, -0.4, 0.4, -1.2, 0.4, -1.2, -0.4, -0.4, -0.4);
  else if (shape === "cross") polygon(-1.1, -0.6, -0.6, -1.1, 0, -0.5, 0.6, -1.1, 1.1, -0.6, 0.5, 0, 1.1, 0.6, 0.6, 1.1, 0, 0.5, -0.6, 1.1, -1.1, 0.6, -0.5, 0);
  else polygon(0, -1.4, 0.35, -0.45, 1.3, -0.4, 0.6, 0.2, 0.85, 1.15, 0, 0.6, -0.85, 1.15, -0.6, 0.2, -1.3, -0.4, -0.35, -0.45);
}

// shapeAt returns a shape as a path of SVG.
function shapeAt(shape, x, y, r) {
  const parts = [];
  const pen = {
    beginPath() {}, moveTo: (x, y) => parts.push(`M${x} ${y}`), lineTo: (x, y) => parts.push(`L${x} ${y}`), closePath: () => parts.push("Z"),
    arc: (x, y, r) => parts.push(`M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`),
    rect: (x, y, w, h) => parts.push(`M${x} ${y}h${w}v${h}h${-w}Z`),
  };
  tracePath(pen, shape, x, y, r);
  return svg("path", { d: parts.join("") });
}

// key returns the swatch of a curve for a legend.
function key(series, dash, shape) {
  const s = svg("svg", { class: series < 0 ? "key" : "key s" + report.doc.series[series].look, width: 30, height: 12, "aria-hidden": "true" });
  s.append(svg("line", { x1: 1, x2: 29, y1: 6, y2: 6, "stroke-dasharray": dash.join(" ") }));
  if (shape) s.append(shapeAt(shape, 15, 6, 4));
  return s;
}

// logSplits returns the ticks of a logarithmic axis: 1, 2 and 5 of each power of ten, or fewer where
// more than limit would not fit.
function logSplits(low, high, limit) {
  let list;
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    list = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const s of steps) {
        const v = s * 10 ** e;
        if (v >= low * 0.999 && v <= high * 1.001) list.push(v);
      }
    if (list.length <= limit) break;
  }
  return list;
}

// rangeOf returns a range with all points, and with their whiskers unless those are much longer
// than the range of the points.
function rangeOf(points, axis, log) {
  let low = Infinity, high = -Infinity, from = Infinity, to = -Infinity;
  for (const p of points) {
    low = Math.min(low, p[axis]);
    high = Math.max(high, p[axis]);
    from = Math.min(from, p[axis + "l"] ?? p[axis]);
    to = Math.max(to, p[axis + "h"] ?? p[axis]);
  }
  if (low > high) return log ? [1, 10] : [0, 1];
  if (log) return [Math.max(from, low / 3) / 1.25, Math.min(to, high * 3) * 1.25];
  return [0, Math.min(to, high * 1.3) * 1.06 || 1];
}

// drawChart draws spec into host: {label, height, x, y, curves}. An axis has title, log, and text(v) or
// ticks {x, text}. A curve has series, dash, shape and points {x, y, xl, xh,
// yl, yh, cell, lines, crossed, past}.
function drawChart(host, spec) {
  const chart = { host, spec, zoom: null, at: -1 };
  chart.points = spec.curves.flatMap((curve) => curve.points.map((p) => ({ ...p, curve })));
  const fits = (p) => (!spec.x.log || p.x > 0) && (!spec.y.log || p.y > 0);
  chart.points = chart.points.filter(fits);
  const levels = (spec.levels || []).map((l) => ({ y: l.y, x: null }));
  chart.full = { x: spec.x.range || rangeOf(chart.points, "x", spec.x.log), y: rangeOf([...chart.points, ...levels], "y", spec.y.log) };
  const box = el("div", { class: "chart", tabindex: "0", role: "group", "aria-roledescription": "chart",
    "aria-label": `${spec.label}. ${count(chart.points.length, "point")}; the arrow keys go from one to the next, Enter opens its cell.` });
  host.append(box);
  chart.box = box;
  chart.ring = el("div", { class: "ring", hidden: true });
  const axis = (which, extra) => ({
    scale: which, stroke: () => color("--quiet"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    label: spec[which].title, labelSize: 18, grid: { stroke: () => color("--grid"), width: 1 }, ticks: { stroke: () => color("--grid"), size: 4 },
    values: (u, list) => list.map(spec[which].ticks ? (v) => spec[which].ticks.find((t) => t.x === v).text : spec[which].text),
    ...(spec[which].log || spec[which].ticks ? { splits: (u, i, low, high) => spec[which].ticks?.map((t) => t.x).filter((x) => x >= low && x <= high) || logSplits(low, high, Math.min(10, (i ? u.height : u.width - 90) / extra.space)), filter: (u, list) => list } : {}), ...extra,
  });
  const scale = (which) => ({ time: false, distr: spec[which].log ? 3 : 1, range: () => (chart.zoom || chart.full)[which] });
  chart.plot = new uPlot({
    width: widthOf(host), height: spec.height || 300, legend: { show: false }, padding: [8, 28, 0, 0],
    scales: { x: scale("x"), y: scale("y") }, series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
    axes: [axis("x", { size: 30, space: 60 }), axis("y", { size: 62, space: 34 })],
    cursor: { x: false, y: false, points: { show: false }, drag: { x: true, y: true, setScale: false, uni: 20 } },
    hooks: { draw: [() => paint(chart)], setSelect: [() => zoomTo(chart)] },
  }, [chart.full.x, chart.full.y], box);
  chart.plot.over.append(chart.ring);
  listen(chart);
  charts.add(chart);
  return chart;
}

// recolor redraws all charts with another colour scheme. Nothing may move, because a browser that
// prints has already measured the page.
function recolor() {
  for (const chart of charts) {
    if (chart.box.isConnected) chart.plot.redraw(false);
    else charts.delete(chart);
  }
}

function widthOf(host) { return Math.max(240, Math.floor(host.getBoundingClientRect().width)); }

function paint(chart) {
  const u = chart.plot, c = u.ctx, ratio = window.devicePixelRatio;
  const x = (v) => u.valToPos(v, "x", true), y = (v) => u.valToPos(v, "y", true);
  c.save();
  c.beginPath();
  c.rect(u.bbox.left - 6 * ratio, u.bbox.top - 6 * ratio, u.bbox.width + 12 * ratio, u.bbox.height + 12 * ratio);
  c.clip();
  for (const level of chart.spec.levels || []) paintLevel(u, level, y(level.y), ratio);
  for (const p of chart.points) paintDots(c, p, x, y, ratio);
  for (const curve of chart.spec.curves) {
    const points = chart.points.filter((p) => p.curve === curve);
    c.strokeStyle = c.fillStyle = color(curve.series < 0 ? "--quiet" : "--s" + report.doc.series[curve.series].look);
    c.lineWidth = 1.75 * ratio;
    c.lineJoin = "round";
    c.setLineDash(curve.dash.map((d) => d * ratio));
    c.beginPath();
    points.forEach((p, i) => (i ? c.lineTo(x(p.x), y(p.y)) : c.moveTo(x(p.x), y(p.y))));
    c.stroke();
    c.setLineDash([]);
    if (curve.shape) points.forEach((p) => paintPoint(c, p, curve.shape, x, y, ratio));
  }
  c.restore();
}

// paintLevel draws a horizontal line with its name.
function paintLevel(u, level, y, ratio) {
  const c = u.ctx;
  c.strokeStyle = c.fillStyle = color("--quiet");
  c.lineWidth = ratio;
  c.setLineDash([2 * ratio, 3 * ratio]);
  c.beginPath();
  c.moveTo(u.bbox.left, y);
  c.lineTo(u.bbox.left + u.bbox.width, y);
  c.stroke();
  c.setLineDash([]);
  c.font = `${11.5 * ratio}px system-ui, sans-serif`;
  c.textAlign = "right";
  c.fillText(level.text, u.bbox.left + u.bbox.width - 4 * ratio, y - 4 * ratio);
}

// paintDots draws the repeats behind a median.
function paintDots(c, p, x, y, ratio) {
  c.globalAlpha = 0.4;
  const tints = {};
  for (const d of p.dots || []) {
    c.fillStyle = tints[d.state] ??= color(stateColor(d.state) || "--s" + report.doc.series[p.curve.series].look);
    c.beginPath();
    c.arc(x(d.x ?? p.x), y(d.y), 2 * ratio, 0, 7);
    c.fill();
  }
  c.globalAlpha = 1;
}

// stateColor returns the colour of a state of the machine, or nothing for a machine with one state.
function stateColor(state) {
  return { near: "--good", far: "--bad", mixed: "--warn", unread: "--quiet" }[state] || (state ? "--link" : "");
}

// paintKnee rings the knee of a curve.
function paintKnee(c, x, y, ratio) {
  c.lineWidth = 1.5 * ratio;
  c.beginPath();
  c.arc(x, y, 9 * ratio, 0, 7);
  c.stroke();
  const fill = c.fillStyle;
  c.fillStyle = color("--ink");
  c.font = `${11.5 * ratio}px system-ui, sans-serif`;
  c.textAlign = "center";
  c.fillText("knee", x, y - 13 * ratio);
  c.fillStyle = fill;
}

function paintPoint(c, p, shape, x, y, ratio) {
  c.lineWidth = ratio;
  c.globalAlpha = 0.55;
  c.beginPath();
  if (p.yl != null && p.yl > 0) { c.moveTo(x(p.x), y(p.yl)); c.lineTo(x(p.x), y(p.yh)); }
  if (p.xl != null && p.xl > 0) { c.moveTo(x(p.xl), y(p.y)); c.lineTo(x(p.xh), y(p.y)); }
  c.stroke();
  c.globalAlpha = 1;
  const fill = c.fillStyle, line = c.strokeStyle;
  if (p.knee) paintKnee(c, x(p.x), y(p.y), ratio);
  tracePath(c, shape, x(p.x), y(p.y), 4.2 * ratio);
  if (p.color) c.fillStyle = c.strokeStyle = color(p.color);
  if (p.past || p.crossed) c.fillStyle = color("--paper");
  c.fill();
  c.lineWidth = 1.5 * ratio;
  c.stroke();
  [c.fillStyle, c.strokeStyle] = [fill, line];
  if (p.crossed) {
    const r = 7 * ratio;
    c.beginPath();
    c.moveTo(x(p.x) - r, y(p.y) - r);
    c.lineTo(x(p.x) + r, y(p.y) + r);
    c.moveTo(x(p.x) - r, y(p.y) + r);
    c.lineTo(x(p.x) + r, y(p.y) - r);
    c.stroke();
  }
}

function zoomTo(chart) {
  const u = chart.plot, s = u.select;
  if (s.width < 8 && s.height < 8) return;
  const now = chart.zoom || chart.full;
  const x = s.width > 8 ? [u.posToVal(s.left, "x"), u.posToVal(s.left + s.width, "x")] : now.x;
  const y = s.height > 8 && s.height < u.over.clientHeight ? [u.posToVal(s.top + s.height, "y"), u.posToVal(s.top, "y")] : now.y;
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  rescale(chart, { x, y });
}

function rescale(chart, zoom) {
  chart.zoom = zoom;
  chart.plot.setData(chart.plot.data);
  mark(chart, -1);
}

function positionOf(chart, p) { return [chart.plot.valToPos(p.x, "x"), chart.plot.valToPos(p.y, "y")]; }

function nearest(chart, left, top) {
  let best = -1, distance = 28 ** 2;
  chart.points.forEach((p, i) => {
    const [x, y] = positionOf(chart, p), d = (x - left) ** 2 + (y - top) ** 2;
    if (d < distance) [best, distance] = [i, d];
  });
  return best;
}

// mark shows the figures of a point; -1 hides them.
function mark(chart, i, quiet) {
  chart.at = i;
  chart.ring.hidden = i < 0;
  if (i < 0) return hideTip();
  const p = chart.points[i], [x, y] = positionOf(chart, p), over = chart.plot.over.getBoundingClientRect();
  chart.ring.style.left = x + "px";
  chart.ring.style.top = y + "px";
  showTip(p.lines, over.left + x, over.top + y, quiet);
}

function listen(chart) {
  const over = chart.plot.over;
  let dragged = false;
  over.addEventListener("mousedown", () => { dragged = false; });
  over.addEventListener("mousemove", (e) => {
    if (e.buttons) dragged = true;
    const r = over.getBoundingClientRect(), i = nearest(chart, e.clientX - r.left, e.clientY - r.top);
    if (i !== chart.at) mark(chart, i, true);
    over.classList.toggle("hit", i >= 0);
  });
  over.addEventListener("mouseleave", () => mark(chart, -1));
  over.addEventListener("dblclick", () => rescale(chart, null));
  over.addEventListener("click", () => { if (!dragged && chart.at >= 0) location.hash = "cell-" + chart.points[chart.at].cell; });
  chart.box.addEventListener("blur", () => mark(chart, -1));
  chart.box.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    const n = chart.points.length;
    if (step && n) mark(chart, chart.at < 0 ? (step > 0 ? 0 : n - 1) : (chart.at + step + n) % n);
    else if (e.key === "Enter" && chart.at >= 0) location.hash = "cell-" + chart.points[chart.at].cell;
    else if (e.key === "Escape") rescale(chart, null);
    else return;
    e.preventDefault();
  });
}

function showTip(lines, x, y, quiet) {
  const tip = document.getElementById("tip");
  tip.setAttribute("aria-live", quiet ? "off" : "polite");
  tip.replaceChildren(...lines.map((line, i) => el(i ? "span" : "strong", {}, line)));
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - w - 4)) + "px";
  tip.style.top = (y + h + 24 > window.innerHeight ? Math.max(4, y - h - 12) : y + 14) + "px";
}

function hideTip() { document.getElementById("tip").hidden = true; }

// stateLegend names the colours of the states of the machine.
function stateLegend(states) {
  const dot = (s) => svg("svg", { class: "key state-" + s, width: 10, height: 10, "aria-hidden": "true" }, svg("circle", { cx: 5, cy: 5, r: 4 }));
  return el("ul", { class: "legend plain states" }, states.map((s) => el("li", {}, dot(s), "repeat with the machine " + s)));
}

// statesOf lists the states of the machine in the repeats of cells.
function statesOf(cells) {
  return [...new Set(cells.flatMap((c) => report.doc.cells.repeat_states[c] || []))];
}
