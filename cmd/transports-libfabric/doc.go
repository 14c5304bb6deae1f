// Command transports-libfabric is the program of the plugin over libfabric.
package main
