package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// pack makes of a value what the page's script unpacks: JSON, compressed.
func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// text is packed data as it stands in HTML, in which base64 has nothing to
// escape.
func text(packed []byte) string { return base64.StdEncoding.EncodeToString(packed) }
