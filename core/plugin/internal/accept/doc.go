// Package accept is the one place that checks what a plugin's rank reports: between the wire, which
// knows only types, and the rest of the host, which relies on what passed here. A value that no rank
// can have is a [*record.InvalidError].
//
// It bounds each value by the plan of the run, by other values of the same report, and by the time
// that the host itself measured. A plugin that lies within these bounds, and in all ranks alike,
// cannot be told from a transport with those figures.
package accept
