// Command transports-ucx is the program of the plugin over UCX.
package main
