// Package delay describes how long the storage behind the store takes for a value: a fixed time or
// a distribution.
package delay
