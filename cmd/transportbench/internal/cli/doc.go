// Package cli is the command line: the subcommands, their output and their exit
// codes.
package cli
