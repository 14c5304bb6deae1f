package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// table is a table of the page, as HTML. The script shows the rows that the filters leave, in the
// order that the reader chooses.
type table struct {
	Open string `json:"open"` // all before the rows
	// Rows are the rows, and Cells the number of each row's cell, or -1; Cells is empty if no filter
	// applies.
	Rows  []string `json:"rows"`
	Cells []int    `json:"cells,omitempty"`
	// Groups has the cells of each row of a table whose rows are about several.
	Groups [][]int `json:"groups,omitempty"`
	// Orders has the ascending order of the rows by each column that sorts.
	Orders map[int][]int `json:"orders,omitempty"`

	columns []column
	keys    map[int][]any
}

// column is parsed from its name: "> name" is aligned to the right, "~name" has sentences, and a name
// that ends in "*" sorts.
type column struct {
	class string
	sorts bool
}

// entry is the content of a table's cell. Rows without a key sort last.
type entry struct {
	html string
	key  any // nil, a float64 or a string
}

// text is an entry of plain text.
func text(s string) entry { return entry{escape(s), s} }

// figure is an entry of a figure, by which its column sorts.
func figure(s string, value float64) entry { return entry{escape(s), value} }

// markup is an entry of HTML.
func markup(html string, key any) entry { return entry{html, key} }

// metricEntry is an entry with a median.
func metricEntry(m *result.Metric) entry {
	if m == nil {
		return entry{"-", nil}
	}
	return figure(format.Value(*m), m.Median)
}

func intervalEntry(m *result.Metric) entry {
	if m == nil {
		return text("-")
	}
	return text(format.Interval(*m))
}

func escape(s string) string { return template.HTMLEscapeString(s) }

// newTable begins a table. helps explain columns by their names.
func newTable(caption string, helps map[string]string, names ...string) *table {
	t := &table{Rows: []string{}, keys: map[int][]any{}}
	var b strings.Builder
	fmt.Fprintf(&b, `<table><caption>%s</caption><thead><tr>`, escape(caption))
	for i, name := range names {
		var c column
		if name, c.sorts = strings.CutSuffix(name, "*"); strings.HasPrefix(name, ">") {
			name, c.class = name[1:], ` class="right"`
		} else if strings.HasPrefix(name, "~") {
			name, c.class = name[1:], ` class="long"`
		}
		t.columns = append(t.columns, c)
		b.WriteString(`<th scope="col"`)
		if strings.Contains(c.class, "right") {
			b.WriteString(c.class)
		}
		if help := helps[name]; help != "" {
			fmt.Fprintf(&b, ` title="%s"`, escape(help))
		}
		b.WriteByte('>')
		if c.sorts {
			fmt.Fprintf(&b, `<button type="button" data-by="%d">%s</button>`, i, escape(name))
		} else {
			b.WriteString(escape(name))
		}
		b.WriteString(`</th>`)
	}
	b.WriteString(`</tr></thead><tbody>`)
	t.Open = b.String()
	return t
}

// add adds a row.
func (t *table) add(entries ...entry) {
	var b strings.Builder
	b.WriteString("<tr>")
	for i, e := range entries {
		if i == 0 {
			b.WriteString(`<th scope="row">` + e.html + `</th>`)
		} else {
			b.WriteString(`<td` + t.columns[i].class + `>` + e.html + `</td>`)
		}
		if t.columns[i].sorts {
			t.keys[i] = append(t.keys[i], e.key)
		}
	}
	b.WriteString("</tr>")
	t.Rows = append(t.Rows, b.String())
}

// addOf adds a row of a cell, which filters hide.
func (t *table) addOf(cell int, entries ...entry) {
	t.Cells = append(t.Cells, cell)
	t.add(entries...)
}

// sorted computes the orders of the rows.
func (t *table) sorted() *table {
	for i, keys := range t.keys {
		if t.Orders == nil {
			t.Orders = map[int][]int{}
		}
		order := make([]int, len(keys))
		for at := range order {
			order[at] = at
		}
		slices.SortStableFunc(order, func(a, b int) int { return compareKeys(keys[a], keys[b]) })
		if !slices.IsSorted(order) {
			t.Orders[i] = order
		} else {
			t.Orders[i] = []int{} // as it stands
		}
	}
	return t
}

func compareKeys(a, b any) int {
	switch x := a.(type) {
	case float64:
		if y, both := b.(float64); both {
			return cmp.Compare(x, y)
		}
	case string:
		if y, both := b.(string); both {
			return cmp.Compare(x, y)
		}
	}
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	default:
		return -1
	}
}

// pairTable is a table of names and values, by name.
func pairTable(caption string, pairs map[string]string) *table {
	t := newTable(caption, nil, "name", "value")
	names := make([]string, 0, len(pairs))
	for name := range pairs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.add(text(name), text(pairs[name]))
	}
	return t
}
