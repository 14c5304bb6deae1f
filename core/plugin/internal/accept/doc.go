// Package accept is the one place that checks what a plugin's rank reports: between the wire, which
// knows only types, and the rest of the host, which relies on what passed here. A value that no
// rank can have is a [*record.InvalidError].
//
// It bounds each value by the plan of the run, by other values of the same report, and by the time
// that the host itself measured. A plugin that lies within these bounds, and in all ranks alike,
// cannot be distinguished from a transport with those figures.
//
// # Bounds
//
// The bounds of a field stand beside it, as the tag "bound" in core/base/record and core/transport.
// A number, text, list or map without the tag is an error in the program. The tag is "any" if all
// values are possible, or rules with commas between them:
//
//	<=LIMIT   at most LIMIT
//	>=LIMIT   at least LIMIT
//	=A|B      one of these limits, or one of these texts if the field is a text
//	once      the entries of a list differ: texts, or the names of structs
//
// A rule compares the value of a number, which is never negative, the length of a text in bytes, or
// the number of entries of a list or map. A word before the operator says what else it compares:
//
//	each<=     each entry of a list or map; of a struct, its field "count"
//	sum<=      the sum of all entries, unless there are none
//	key=       each key of a map
//	records<=  the number of records of the histogram in a text; none is longer than $took
//	set=       1 if a pointer is set, else 0
//	NAME<=     the field NAME of a struct
//
// A LIMIT is a number, exact (2^53) or int64 (the largest one), the name that another field of the
// struct has in JSON, or $NAME for what only the host knows; +, - and * join them, left to right,
// without parentheses. Sums and products do not overflow, and differences are not below 0. A field
// after a histogram can use its name for the number of its records.
//
// Rules that a tag cannot say are code in this package.
package accept
