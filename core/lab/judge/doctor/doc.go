// Package doctor examines the machine for whatever affects a transport's results. Each [Finding]
// says what was found, what it means for the results, and how to fix it. The command prints the
// findings.
package doctor
