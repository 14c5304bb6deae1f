// Command transports-verbs is the program of the plugins that use libibverbs: it is the plugin by
// whose name it is started.
package main
