package history

import (
	"encoding/json"
	"io"
)

// DocumentVersion is the version of [Document], whose JSON Schema is schema.json.
const DocumentVersion = "1.3.0"

// Document is a history with its series, as `history --json` writes it.
type Document struct {
	SchemaVersion string   `json:"schema_version" jsonschema:"pattern=^1\\.[0-9]+\\.[0-9]+$"`
	Kind          string   `json:"kind" jsonschema:"enum=history"`
	Sets          []Set    `json:"sets"`
	Series        []Series `json:"series"`
}

// Encode writes a history and some of its series as a [Document].
func (h *History) Encode(w io.Writer, series []Series) error {
	if series == nil {
		series = []Series{}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(Document{DocumentVersion, "history", h.Sets, series})
}
