// Command transport-ucxam is the plugin of the transport over UCX's active
// messages.
package main
