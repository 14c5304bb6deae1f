package accept

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"transportbench/core/base/record"
)

// Decode decodes the JSON of a plugin's answer. what names the answer in the
// [*record.InvalidError] for one that is impossible.
func Decode(text []byte, what string, into any) error {
	err := json.Unmarshal(text, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &record.InvalidError{Field: cmp.Or(wrong.Field, what), Value: quoted(wrong.Value),
			Bound: "a value of type " + wrong.Type.String()}
	}
	return &record.InvalidError{Field: what, Value: fmt.Sprintf("an answer of %d bytes", len(text)),
		Bound: "JSON: " + err.Error()}
}
