// Package doctor examines the machine for what shapes a transport's results:
// each [Finding] says what was found, what it means for the numbers, and how to
// mend it. It produces data; the command renders it.
package doctor
