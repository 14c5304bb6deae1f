// Package stack studies what each layer of a transport adds, from the medium to a mesh: a built-in
// sweep of the layers, and the microbenchmarks of a transport's own part of them. Package analyze
// finds the layers in the results.
package stack
