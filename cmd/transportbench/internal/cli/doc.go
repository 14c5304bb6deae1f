// Package cli is the command line: its subcommands, what they print where, and
// the code that they exit with.
package cli
