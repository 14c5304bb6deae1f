// Package netspace makes network namespaces and joins them by wires, as hosts on one machine.
//
// No name in the file system refers to a namespace, and no interface is ever in that of the user.
// So all ends with the processes that hold a namespace, however they end.
package netspace
