// Package terminal shows documents and progress on a terminal.
package terminal
