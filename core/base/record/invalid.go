package record

import "fmt"

// InvalidError reports that a plugin sent a value that no rank can have: the plugin is faulty, and
// nothing else that it sent can be trusted.
type InvalidError struct {
	Field string // where the value is in the answer: "report.clients[1].elapsed_ns"
	Value string
	Bound string // what it must be: "1 to 400000000"
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %s is impossible (%s): the plugin is faulty", e.Field, e.Value, e.Bound)
}
