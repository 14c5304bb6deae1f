// Package devmemtest writes control messages as the kernel does, for tests.
package devmemtest
