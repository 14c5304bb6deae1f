package present

import (
	"io"
	"strings"
)

// markdownEscaper escapes what would make a link, code, HTML, emphasis or a cell of a table out of
// plain text. A table takes a backslash and a bar apart, so a bar becomes an entity.
var markdownEscaper = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", `\<`, "@", `\@`, "&", `\&`, "]", `\]`, "|", "&#124;",
	"://", `:\//`, "www.", `www\.`)

// markdownText writes plain text as Markdown.
type markdownText struct{ io.Writer }

func (w markdownText) Write(text []byte) (int, error) {
	if _, err := markdownEscaper.WriteString(w.Writer, string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
