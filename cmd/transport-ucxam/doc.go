// Command transport-ucxam is the plugin of the transport over UCX active
// messages.
package main
