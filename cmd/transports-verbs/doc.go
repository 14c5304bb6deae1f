// Command transports-verbs has the plugins that use libibverbs. The name under which it is started,
// such as transport-erpc, chooses one.
package main
