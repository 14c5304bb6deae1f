// Command transports-libc is the program of the plugins that need no library but libc: it is the
// plugin by whose name it is started.
package main
