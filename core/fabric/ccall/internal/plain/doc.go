// Package plain calls C functions through cgo.
package plain
