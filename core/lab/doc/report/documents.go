package report

import (
	"html/template"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
)

// documents returns the tables of each set that reproduces a document: our figures beside the
// published ones.
func (b *builder) documents() (list []template.HTML, err error) {
	for _, s := range b.sets {
		for _, d := range b.Documents {
			if !d.In(s) {
				continue
			}
			c, err := d.Compare(s)
			if err != nil {
				return nil, err
			}
			list = append(list, template.HTML(doc.HTML(findings.Reproduction(c))))
		}
	}
	return list, nil
}
