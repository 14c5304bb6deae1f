// Package shim has amlib.h, what the C halves of transports over package amlib have in common, and
// does not compile if the structs of amlib.h and of amlib differ.
package shim
