// Package witness runs the field's own benchmarks beside a run: on the same processors and the same
// medium, with messages of the same size, between its windows. Their readings are no floors and
// nothing of this project: a person who doubts a figure finds the tool that they know in the next
// column.
//
// A witness measures messages and not calls, verifies nothing, and has no store behind it. Of a
// round trip both measure the same; docs/command.md says for each tool what it does differently.
package witness
