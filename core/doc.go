// Package core says which runtime a binary links: its version, its revision
// and a digest of the measured code. The packages beside it do the work.
package core
