// Package micro studies what a transport is built on, without the transport: its microbenchmarks,
// with the field's own tool beside those that name one, and its setup, on one host or between two.
// It also takes the microbenchmarks of a stack of layers and of a document that is reproduced.
package micro
