package app

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page of the command has the exit codes of the help.
func TestDocumentedExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/command.md")
	require.NoError(t, err)
	var want strings.Builder
	want.WriteString("<!-- exit codes -->\n| code | meaning |\n|---|---|\n")
	list := strings.TrimPrefix(strings.Join(strings.Fields(ExitHelp), " "), "Exit codes: ")
	for code := range strings.SplitSeq(strings.TrimSuffix(list, "."), "; ") {
		number, meaning, _ := strings.Cut(code, " ")
		want.WriteString("| " + number + " | " + meaning + " |\n")
	}
	want.WriteString("<!-- end of exit codes -->")
	require.Equal(t, want.String(), regexp.MustCompile(
		`(?s)<!-- exit codes -->.*<!-- end of exit codes -->`).FindString(string(page)))
}
