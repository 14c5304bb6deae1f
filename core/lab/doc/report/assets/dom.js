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

// fillTable shows a table that Go has made: its rows of visible cells, rowsAtOnce first, in the order that
// the reader chooses.
function fillTable(host, t) {
  let shown = rowsAtOnce, by = -1, down = false;
  const box = el("div", { class: "scroll", tabindex: "0", role: "region" }), more = el("p", { class: "note" });
  box.innerHTML = t.open;
  box.setAttribute("aria-label", box.querySelector("caption").textContent);
  const body = box.querySelector("tbody"), natural = [...t.rows.keys()];
  const draw = () => {
    const all = by >= 0 && t.orders[by].length ? t.orders[by] : natural, order = (down ? [...all].reverse() : all).filter((i) => (t.groups ? t.groups[i].some(visible) : !t.cells || t.cells[i] < 0 || visible(t.cells[i])));
    body.innerHTML = order.slice(0, shown).map((i) => t.rows[i]).join("");
    if (t.groups) [...body.rows].forEach((row, k) => {
      row.querySelector("[data-here]").textContent = t.groups[order[k]].filter(visible).length;
      for (const item of row.querySelectorAll("[data-c]")) item.hidden = !visible(Number(item.dataset.c));
    });
    more.hidden = order.length <= shown;
    more.replaceChildren(`${Math.min(shown, order.length)} of ${order.length} rows. `, el("button", { type: "button", onclick: () => { shown += 5 * rowsAtOnce; draw(); } }, "more"));
  };
  box.querySelector("thead").addEventListener("click", (e) => {
    const button = e.target.closest("[data-by]");
    if (!button) return;
    down = by === Number(button.dataset.by) && !down;
    by = Number(button.dataset.by);
    for (const head of box.querySelectorAll("th[aria-sort]")) head.removeAttribute("aria-sort");
    button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
    draw();
  });
  draw();
  host.append(box, more);
}

// fillTables fills the places of tables, those in a fold when the reader opens it.
function fillTables(root, tables) {
  for (const host of root.querySelectorAll("[data-table]")) {
    const d = host.closest("details"), fill = () => fillTable(host, tables[host.dataset.table]);
    if (!d) {
      fill();
      continue;
    }
    const open = () => {
      if (d.open && !d.dataset.filled) {
        d.dataset.filled = "yes";
        fill();
      }
      d.open ? folds.add(d.dataset.fold) : folds.delete(d.dataset.fold);
    };
    d.addEventListener("toggle", open);
    d.open = folds.has(d.dataset.fold);
    if (d.open) open();
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
