package record

import "fmt"

// ExitError reports that a rank's process ended unexpectedly. Calls of [Control] that the end cut
// short return it.
type ExitError struct {
	Plugin string
	PID    int
	// State is how the kernel describes the end: "exit status 1",
	// "signal: segmentation fault (core dumped)".
	State string
	// Reason is the output line that most likely explains the end; it may be empty.
	Reason string
	// Output has the last lines that the process wrote.
	Output []string
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("plugin %s (pid %d) died: %s", e.Plugin, e.PID, e.State)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}
