// Command transports-libc has the plugins that need no library but libc. The name under which it is
// started, such as transport-shm, chooses one.
package main
