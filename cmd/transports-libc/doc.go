// Command transports-libc has the plugins that start with no library but libc: those that use
// libibverbs or libcuda open it at run time. The name under which it is started, such as
// transport-shm, chooses one.
package main
