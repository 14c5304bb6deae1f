// Package controlpb is the control protocol between a host and a rank, as
// generated from control.proto. core/plugin/internal/wire turns it into
// [transportbench/core/runtime/rank.Control] at either end.
//
// Arguments and results travel as the JSON of the Go types in core/runtime/rank and
// core/transport, inside bytes fields. Both ends link the same core/runtime/rank, which
// the runtime digest guarantees, so one definition serves both, and a field
// added there needs no second one here. Only what the protocol itself looks at
// is a protobuf field: which event of a run this is, and what kind of error.
//
// The generated files are committed. scripts/generate.sh makes them, and with
// --check it fails where they differ from control.proto, which CI does.
package controlpb

//go:generate ../../../scripts/generate.sh
