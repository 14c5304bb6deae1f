// Package complete completes words of a command line in a shell.
package complete
