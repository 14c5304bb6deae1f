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

function swatch(series) { return el("span", { class: "sw s" + report.doc.series[series].look, "aria-hidden": "true" }); }

const rowsAtOnce = 100;

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
// the reader chooses. complete may fill in each row, and the head as row -1.
function fillTable(host, t, complete) {
  let shown = rowsAtOnce, order = [...t.rows.keys()];
  const box = el("div", { class: "scroll", tabindex: "0", role: "region" }), more = el("p", { class: "note" });
  box.innerHTML = t.open;
  const made = box.querySelector("table"), body = made.tBodies[0];
  box.setAttribute("aria-label", made.caption.textContent);
  const rowsOf = (list) => {
    const rows = el("tbody");
    rows.innerHTML = list.map((i) => t.rows[i]).join("");
    if (complete) list.forEach((i, k) => complete(rows.rows[k], i));
    return [...rows.rows];
  };
  const draw = () => {
    const list = order.filter((i) => (t.groups ? t.groups[i].some(visible) : !t.cells || t.cells[i] < 0 || visible(t.cells[i])));
    body.replaceChildren(...rowsOf(list.slice(0, shown)));
    more.hidden = list.length <= shown;
    more.replaceChildren(`${Math.min(shown, list.length)} of ${list.length} rows. `, el("button", { type: "button", onclick: () => { shown += 5 * rowsAtOnce; draw(); } }, "more"));
  };
  complete?.(made.tHead.rows[0], -1);
  sortable(made, () => rowsOf([...t.rows.keys()]), (by) => { order = by; draw(); });
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

function toggle(label, on, pick) {
  return el("label", { class: "toggle" }, el("input", { type: "checkbox", checked: on, onchange: (e) => pick(e.target.checked) }), label);
}
