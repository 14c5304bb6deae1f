// Package shim has amlib.h and amlib_probe.h, which the C halves of transports over package amlib
// share. It does not compile if the structs of amlib.h and of amlib differ.
package shim
