// Package devmemtest writes control messages as the kernel does, for tests of what reads
// them.
package devmemtest
