// Package stack studies what each layer of a transport adds, from the medium to a mesh: a built-in
// sweep of the layers, and the rings under shared memory. Package analyze finds the layers in the
// results.
package stack
