// Package plugin is the plugin's side of the plugin boundary: the main function
// of a transport's binary calls [Main] with its driver, and the host, which is
// package core/plugin/host, does the rest. Only this tree knows go-plugin and
// gRPC.
//
// A plugin binary understands these arguments:
//
//	describe        prints a [Description] as one line of JSON; touches no hardware
//	serve           serves a host that started it, as it does without arguments
//	serve --debug   serves whoever connects, and prints how: for debuggers
//
// # Life and death
//
// Standard output carries go-plugin's handshake and belongs to it; everything
// that a plugin has to say goes to its log, on standard error. A plugin ends
// when the host asks it to, when the pipe that the host holds reaches its end,
// or when its parent thread dies, whichever comes first, so that none outlives
// its host. In each case but the last it closes its transport first, in
// bounded time.
package plugin
