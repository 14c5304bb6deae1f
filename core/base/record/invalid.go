package record

import (
	"encoding/json"
	"errors"
	"fmt"
)

// InvalidError reports that a plugin sent a value that no rank can have: the plugin is faulty, and
// nothing else that it sent can be trusted.
type InvalidError struct {
	Field string // where the value is in the answer: "report.clients[1].elapsed_ns"
	Value string
	Bound string // what it must be: "1 to 400000000"
}

// NotFinite returns an [InvalidError] if err reports a number that JSON cannot encode (NaN or
// infinity), else nil.
func NotFinite(err error) error {
	var value *json.UnsupportedValueError
	if !errors.As(err, &value) {
		return nil
	}
	return &InvalidError{Field: "its answer", Value: value.Str, Bound: "a finite number"}
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %s is impossible (%s): the plugin is faulty", e.Field, e.Value, e.Bound)
}
