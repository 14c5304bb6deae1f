package cellpage

import (
	"fmt"
	"strings"
)

// Bar is a value with its label and its text.
type Bar struct {
	Label, Text string
	Value       float64
	Low, High   *float64 // of its interval, if it has one
	Class       string   // colour
	Cell        *int     // whose filters hide the bar, if it is one cell's
}

// Bars draws bars below each other, with a dashed line at a value. It returns "" without any.
func Bars(caption string, line float64, bars []Bar) string {
	if len(bars) == 0 {
		return ""
	}
	end := line
	for _, b := range bars {
		end = max(end, b.Value)
		if b.High != nil {
			end = max(end, *b.High)
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<figure class="bars" data-bars><figcaption>%s</figcaption>`, escape(caption))
	for _, b := range bars {
		label, text := escape(b.Label), escape(b.Text)
		at := func(v float64) string { return fmt.Sprintf("%.6g%%", 100*v/end) }
		of := ""
		if b.Cell != nil {
			of = fmt.Sprintf(` data-c="%d"`, *b.Cell)
		}
		fmt.Fprintf(&out, `<div class="bar-row"%s><span class="bar-label" title="%s">%[2]s</span>`, of,
			label)
		fmt.Fprintf(&out, `<svg class="bar" role="img" aria-label="%s: %s">`, label, text)
		fmt.Fprintf(&out, `<rect width="%s" y="2" height="16" class="%s"/>`, at(b.Value), b.Class)
		if b.Low != nil && b.High != nil {
			fmt.Fprintf(&out, `<rect class="interval" x="%s" width="%s" y="8.5" height="3"/>`,
				at(*b.Low), at(*b.High-*b.Low))
		}
		fmt.Fprintf(&out, `<line class="zero" x1="%s" x2="%[1]s" y1="0" y2="20"/></svg>`, at(line))
		fmt.Fprintf(&out, `<span class="bar-value">%s</span></div>`, text)
	}
	return out.String() + `</figure>`
}
