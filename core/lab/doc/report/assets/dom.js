// Creating elements. Text from result files is only set as text.

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, v] of Object.entries(attributes || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), v);
    else if (v === true) e.setAttribute(key, "");
    else e.setAttribute(key, v);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

function svg(name, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, v] of Object.entries(attributes || {})) e.setAttribute(key, v);
  e.append(...children);
  return e;
}

function cellLink(cell, text) { return el("a", { href: "#cell-" + cell }, text === undefined ? labelOf(cell) : text); }

function swatch(series) { return el("span", { class: "sw s" + (series % 8), "aria-hidden": "true" }); }

const rowsAtOnce = 100;

// table makes a table of columns {name, help, right, long, text(row) or node(row), key(row)}; long
// columns have sentences. A click on a column's name sorts by key. It shows rowsAtOnce rows first.
function table(caption, columns, rows) {
  let shown = rowsAtOnce, order = rows, by = -1, down = false;
  const body = el("tbody"), more = el("p", { class: "note" });
  const heads = columns.map((c, i) => {
    const head = { scope: "col", class: c.right ? "right" : null, title: c.help };
    if (!c.key) return el("th", head, c.name);
    return el("th", head,
      el("button", { type: "button", onclick: () => sortBy(i) }, c.name));
  });
  function sortBy(i) {
    down = by === i ? !down : false;
    by = i;
    const key = columns[i].key;
    order = [...rows].sort((a, b) => compareKeys(key(a), key(b)) * (down ? -1 : 1));
    heads.forEach((h, j) => (j === i ? h.setAttribute("aria-sort", down ? "descending" : "ascending") : h.removeAttribute("aria-sort")));
    draw();
  }
  function draw() {
    body.replaceChildren(...order.slice(0, shown).map((row) =>
      el("tr", {}, columns.map((c, i) => {
        const content = c.node ? c.node(row) : c.text(row);
        return i === 0 ? el("th", { scope: "row" }, content) : el("td", { class: c.right ? "right" : c.long ? "long" : null }, content);
      }))));
    more.hidden = order.length <= shown;
    more.replaceChildren(`${Math.min(shown, order.length)} of ${order.length} rows. `,
      el("button", { type: "button", onclick: () => { shown += 5 * rowsAtOnce; draw(); } }, "more"));
  }
  draw();
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), body)), more);
}

function compareKeys(a, b) {
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

// sortable lets a click on the name of a column sort a table. rows returns its rows as elements in their
// natural order, and draw shows those with the numbers that it gets.
function sortable(table, rows, draw) {
  let by = -1, down = false;
  const sortBy = (i, head) => {
    down = by === i && !down;
    by = i;
    const keys = rows().map((row) => { const c = row.cells[i]; return c.textContent === "-" ? null : c.dataset.value === undefined ? c.textContent : Number(c.dataset.value); });
    const order = [...keys.keys()].sort((a, b) => compareKeys(keys[a], keys[b]));
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    draw(down ? order.reverse() : order);
  };
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (head.textContent) head.replaceChildren(el("button", { type: "button", onclick: () => sortBy(i, head) }, head.textContent));
  });
}

// fillTable shows a table that Go has made: its rows of visible cells, rowsAtOnce first, in the order that
// the reader chooses.
function fillTable(host, t) {
  let shown = rowsAtOnce, order = [...t.rows.keys()];
  const box = el("div", { class: "scroll", tabindex: "0", role: "region" }), more = el("p", { class: "note" });
  box.innerHTML = t.open;
  const made = box.querySelector("table"), body = made.tBodies[0];
  box.setAttribute("aria-label", made.caption.textContent);
  const draw = () => {
    const list = order.filter((i) => (t.groups ? t.groups[i].some(visible) : !t.cells || t.cells[i] < 0 || visible(t.cells[i])));
    body.innerHTML = list.slice(0, shown).map((i) => t.rows[i]).join("");
    if (t.groups) [...body.rows].forEach((row, k) => {
      const cells = t.groups[list[k]].filter(visible);
      row.cells[2].textContent = cells.length;
      row.lastElementChild.append(el("details", {}, el("summary", {}, "cells"), el("ul", { class: "cells" }, cells.slice(0, rowsAtOnce).map((c) => el("li", {}, cellLink(c))))));
    });
    more.hidden = list.length <= shown;
    more.replaceChildren(`${Math.min(shown, list.length)} of ${list.length} rows. `, el("button", { type: "button", onclick: () => { shown += 5 * rowsAtOnce; draw(); } }, "more"));
  };
  const all = () => {
    const rows = el("tbody");
    rows.innerHTML = t.rows.join("");
    return [...rows.rows];
  };
  sortable(made, all, (by) => { order = by; draw(); });
  draw();
  host.append(box, more);
}

// sortTables lets the reader sort the tables that are in the page, and keeps what is open.
function sortTables(root) {
  for (const table of root.querySelectorAll("table")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length > 1) sortable(table, () => rows, (order) => table.tBodies[0].append(...order.map((i) => rows[i])));
  }
  for (const d of root.querySelectorAll("details.table")) {
    const id = d.querySelector("summary").textContent;
    d.open = folds.has(id);
    d.dataset.filled = "yes";
    d.addEventListener("toggle", () => (d.open ? folds.add(id) : folds.delete(id)));
  }
}

// folded is a table that is made when the reader opens it.
const folds = new Set();
function folded(id, title, make) {
  const d = el("details", { class: "table" }, el("summary", {}, title));
  const fill = () => {
    if (d.open && !d.dataset.filled) {
      d.dataset.filled = "yes";
      const made = make(d);
      if (made) d.append(made);
    }
  };
  d.addEventListener("toggle", () => {
    fill();
    d.open ? folds.add(id) : folds.delete(id);
  });
  if (folds.has(id)) {
    d.open = true;
    fill();
  }
  return d;
}

function metricColumn(name, title) {
  return { name: title || name, help: report.metrics.get(name)?.help, right: true, text: (cell) => value(metricOf(cell, name)), key: (cell) => metricOf(cell, name)?.median ?? null };
}

function intervalColumn(name) {
  return { name: "95% interval", right: true, text: (cell) => interval(metricOf(cell, name)) };
}

// choice is a labelled row of radio buttons that looks like one control.
function choice(name, label, options, now, pick) {
  return el("fieldset", { class: "choice" }, el("legend", {}, label), options.map(([v, text]) =>
    el("label", {}, el("input", { type: "radio", name, value: v, checked: v === now, onchange: () => pick(v) }), el("span", {}, text))));
}

function toggle(label, on, pick) {
  return el("label", { class: "toggle" }, el("input", { type: "checkbox", checked: on, onchange: (e) => pick(e.target.checked) }), label);
}
