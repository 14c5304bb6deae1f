// Package suggest finds what a user may have meant: the known name that is closest to one that was
// mistyped.
package suggest
