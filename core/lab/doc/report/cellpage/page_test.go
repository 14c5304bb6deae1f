package cellpage

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// A check that is not judged is not ok, and comes last.
func TestChecksThatAreNotJudged(t *testing.T) {
	d := new(Details)
	d.Checks = []result.Finding{
		{Name: "path", OK: true, NotJudged: true, Severity: result.Error,
			Message: "not judged: the kernel counts no bytes of memory"},
		{Name: "served", OK: true, Severity: result.Error, Message: "all were served"},
		{Name: "drift", Severity: result.Warning, Message: "the rate rose"},
	}
	var out bytes.Buffer
	require.NoError(t, doc.WriteText(&out, checks(&Cell{Cell: &set.Cell{}}, d), doc.Screen{}))
	require.Regexp(t, `(?s)drift +warning +the rate rose\n`+
		`served +ok +all were served\n`+
		`path +not judged +the kernel counts no bytes of memory\n`, out.String())
}
