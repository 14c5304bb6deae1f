// Package plugin is the plugin's side of the plugin boundary: the main function of a transport's
// binary calls [Main] with its driver. The host's side is core/plugin/host. Only core/plugin and
// its subpackages use go-plugin and gRPC.
//
// A plugin binary understands these arguments:
//
//	describe        prints a Description as one line of JSON; opens no hardware
//	serve           serves the host that started it; the default
//	serve --debug   serves any host and prints its address, for use under a debugger
//	micro REQUEST   runs microbenchmarks; see record.MicroRequest
//
// Standard output belongs to go-plugin's handshake; a plugin logs to standard error. A plugin ends
// when the host asks it to, when the pipe from the host ends, or when its parent thread dies,
// whichever comes first, so that no plugin outlives its host. In the first two cases it closes its
// transport first, within closeTimeout.
package plugin
