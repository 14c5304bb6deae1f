"use strict";
// Decompressing what Go has made, and the one formatter: of ticks, and of what a chart shows when pointed
// at.

const report = { doc: null, metrics: new Map(), chunks: new Map() };

async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(stream).text(), at = text.indexOf("\n"), phrases = JSON.parse(text.slice(0, at));
  return JSON.parse(text.slice(at + 1).replace(/[\x01-\x08]/g, (c) => phrases[c.charCodeAt(0) - 1]));
}

async function loadDocument() {
  report.doc = await unpack("data");
  report.chunks.clear();
  report.metrics = new Map(report.doc.metrics.map((m) => [m.name, m]));
}

// detailOf decompresses the details of a cell, together with those of its chunk.
async function detailOf(cell) {
  const size = report.doc.chunk_size, at = Math.floor(cell / size);
  if (!report.chunks.has(at)) {
    report.chunks.set(at, unpack("chunk-" + at));
    if (report.chunks.size > 24) report.chunks.delete(report.chunks.keys().next().value);
  }
  const chunk = await report.chunks.get(at), i = cell % size;
  return { ...chunk.cells[i], html: chunk.parts.map((list) => list[i]).join("") };
}

// metricOf returns a metric of a cell, as Go has formatted it, or null.
function metricOf(cell, name) {
  const m = report.metrics.get(name);
  if (!m || m.median[cell] === null) return null;
  const text = m.text[cell], interval = m.interval[cell];
  return { median: m.median[cell], low: m.low?.[cell], high: m.high?.[cell], text, line: `${name} ${text} (${interval})` };
}

const scales = {
  "ns": [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]],
  "op/s": [[1, "op/s"], [1e3, "K op/s"], [1e6, "M op/s"], [1e9, "G op/s"]],
  "B/s": [[1, "B/s"], [1e3, "KB/s"], [1e6, "MB/s"], [1e9, "GB/s"]],
};

function scalesOf(unit) {
  if (unit === "ns/op") return [scales.ns, "/op"];
  if (unit === "ratio" || unit === "share") return [[[1, ""]], ""];
  return [scales[unit] || [[1, unit]], ""];
}

function scaleFor(value, list) {
  let best = list[0];
  for (const s of list.slice(1)) if (Math.abs(value) >= s[0] * 0.9995) best = s;
  return best;
}

// number formats as core/lab/store/format does.
function number(value, unit) {
  const [list, suffix] = scalesOf(unit), s = scaleFor(value, list), name = s[1] + suffix;
  return digits(value / s[0]) + (name ? " " + name : "");
}

// fixed is toFixed, but rounds half to even, as Go does. It compares all digits that a double of
// this size can have.
function fixed(value, places) {
  const rounded = value.toFixed(places), all = value.toFixed(places + 60), cut = all.slice(0, -60);
  const halfway = /^50*$/.test(all.slice(-60)), even = /[02468]\.?$/.test(cut);
  return halfway && even ? cut.replace(/\.$/, "") : rounded;
}

function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95 || size === 0) return fixed(value, 0);
  if (size >= 9.995) return fixed(value, 1);
  if (size >= 0.9995) return fixed(value, 2);
  if (size >= 0.09995) return fixed(value, 3);
  if (size >= 0.009995) return fixed(value, 4);
  const [mantissa, exponent] = value.toExponential(2).split("e");
  const short = mantissa.replace(/\.?0+$/, "");
  if (Number(exponent) >= -4) return String(Number(short + "e" + exponent));
  return short + "e-" + exponent.slice(1).padStart(2, "0");
}

function count(n, what) { return n === 1 ? "1 " + what : n + " " + what + "s"; }

function seriesName(i) { return report.doc.series[i].name; }

function labelOf(cell) { return report.doc.cells.label[cell]; }

function failed(cell) { return report.doc.cells.worst[cell] === "error"; }
