package findings

import (
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/store/format"
)

// nameOf returns the name of a finding, with that of its host if there are several.
func nameOf(f doctor.Finding) string {
	if f.Host != "" {
		return f.Host + ": " + f.Name
	}
	return f.Name
}

// addPaths adds the matrices of the paths between hosts.
func addPaths(out *doc.Doc, p *doctor.Paths) {
	for _, m := range []struct {
		title, unit string
		values      [][]float64
	}{{"round trip", "ns", p.RoundTripNS}, {"bandwidth", "B/s", p.Rate}} {
		columns := []string{m.title + ", from"}
		for _, name := range p.Hosts {
			columns = append(columns, ">to "+name)
		}
		t := doc.NewTable(columns...)
		for from, name := range p.Hosts {
			cells := []any{name}
			for to, value := range m.values[from] {
				switch {
				case p.Failures[from][to] != "":
					cells = append(cells, "none")
				case from == to:
					cells = append(cells, "")
				default:
					cells = append(cells, format.Number(value, m.unit))
				}
			}
			t.Row(cells...)
		}
		out.Line("")
		out.Add(t)
	}
}

// Doctor returns what to fix, with its remedy, then everything that doctor found, in a line for
// each status, and in folds as a table and what the notes mean.
func Doctor(findings []doctor.Finding) *doc.Doc {
	out, notes := new(doc.Doc), new(doc.Doc)
	t := doc.NewTable("", "what", "found").Wrap(20, "found")
	of := map[doctor.Status][]string{}
	for _, status := range []doctor.Status{doctor.Bad, doctor.Warn, doctor.Note, doctor.OK} {
		for _, f := range findings {
			if f.Status != status {
				continue
			}
			t.Row(f.Status, nameOf(f), f.Value)
			name := nameOf(f)
			if status == doctor.Note {
				name += " (" + f.Value + ")"
			}
			of[status] = append(of[status], name)
			switch status {
			case doctor.Bad, doctor.Warn:
				explain(out, f)
			case doctor.Note:
				explain(notes, f)
			}
		}
	}
	if out.Empty() {
		out.Line("Nothing to fix.\n")
	}
	for _, f := range findings {
		if f.Paths != nil {
			addPaths(out, f.Paths)
		}
	}
	for _, status := range []doctor.Status{doctor.Note, doctor.OK} {
		if list := of[status]; len(list) > 0 {
			out.Paragraph("%s: %s", status, strings.Join(list, ", "))
		}
	}
	out.Fold("what the notes mean", notes)
	out.Fold("all as a table", &doc.Doc{Blocks: []doc.Block{t}})
	return out
}

// explain writes a finding, what it means for results, and its remedy.
func explain(out *doc.Doc, f doctor.Finding) {
	out.Line("%s: %s: %s\n  %s", f.Status, nameOf(f), f.Value, f.Meaning)
	if f.Remedy != "" {
		out.Line("  Remedy: %s", f.Remedy)
	}
	out.Gap()
}
