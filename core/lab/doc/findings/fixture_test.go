package findings

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/doctor"
)

// write writes a document for a plain stream.
func write(w io.Writer, d *doc.Doc) { _ = doc.WriteText(w, d, doc.Screen{}) }

func writeMarkdown(w io.Writer, d *doc.Doc) { _, _ = io.WriteString(w, doc.Markdown(d)) }

func TestDoctor(t *testing.T) {
	var out bytes.Buffer
	write(&out, Doctor([]doctor.Finding{
		{Name: "cores", Value: "2 online", Status: doctor.OK, Meaning: "enough for one pair"},
		{Name: "governor", Value: "powersave", Status: doctor.Warn, Meaning: "The clock moves.",
			Remedy: "cpupower frequency-set -g performance"},
		{Name: "memfd", Value: "refused", Status: doctor.Bad, Meaning: "No shared memory.",
			Remedy: "mount /proc"},
		{Name: "rdma", Value: "none", Status: doctor.Note, Meaning: "No hardware numbers."},
	}))
	doctest.Golden(t, "findings.txt", out.String())
	out.Reset()
	write(&out, Doctor([]doctor.Finding{{Name: "cores", Value: "2 online", Status: doctor.OK}}))
	require.Contains(t, out.String(), "Nothing to fix.")
}
