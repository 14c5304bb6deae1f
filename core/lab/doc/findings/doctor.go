package findings

import (
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

// Doctor returns what doctor found, and remedies for what is not OK.
func Doctor(findings []doctor.Finding) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("", "what", "found").Wrap(20, "found")
	wrong := 0
	for _, f := range findings {
		t.Row(f.Status, nameOf(f), f.Value)
		if f.Status != doctor.OK {
			wrong++
		}
	}
	out.Add(t)
	for _, f := range findings {
		if f.Paths != nil {
			addPaths(out, f.Paths)
		}
	}
	if wrong == 0 {
		out.Line("\nNothing to fix.")
		return out
	}
	for _, status := range []doctor.Status{doctor.Bad, doctor.Warn, doctor.Note} {
		for _, f := range findings {
			if f.Status != status {
				continue
			}
			out.Line("\n%s: %s: %s\n  %s", f.Status, nameOf(f), f.Value, f.Meaning)
			if f.Remedy != "" {
				out.Line("  Remedy: %s", f.Remedy)
			}
		}
	}
	return out
}
